// SPDX-License-Identifier: Apache-2.0
#include "comm/socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "comm/failure.h"
#include "comm/group.h"
#include "core/check.h"

namespace tilelace::comm {
namespace {

constexpr std::size_t kMaxFds = 8;  // more than one is wrong already; room to own and close them

template <class T>
void add_control(msghdr& message, int type, const T& value) {
  auto* at =
      reinterpret_cast<cmsghdr*>(static_cast<char*>(message.msg_control) + message.msg_controllen);
  at->cmsg_level = SOL_SOCKET;
  at->cmsg_type = type;
  at->cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(CMSG_DATA(at), &value, sizeof value);
  message.msg_controllen += CMSG_SPACE(sizeof value);
}

void take_control(msghdr& message, Frame& frame) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET) continue;
    if (c->cmsg_type == SCM_RIGHTS) {
      const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
        frame.fds.emplace_back(fd);
      }
    } else if (c->cmsg_type == SCM_CREDENTIALS && c->cmsg_len >= CMSG_LEN(sizeof(ucred))) {
      ucred who{};
      std::memcpy(&who, CMSG_DATA(c), sizeof who);
      frame.pid = who.pid;
    }
  }
}

/// What is wrong with a received frame; empty: nothing.
std::string judge(const FrameHeader& h, std::size_t received, int flags) {
  if (received < sizeof h)
    return fmt::format("got {} bytes, expected at least {}", received, sizeof h);
  if (h.magic != kFrameMagic)
    return fmt::format("got magic {:#x}, expected {:#x}", h.magic, kFrameMagic);
  if (h.version != kFrameVersion)
    return fmt::format("got version {}, expected {}: all ranks must run the same build", h.version,
                       kFrameVersion);
  if (name_of(static_cast<FrameType>(h.type)).empty())
    return fmt::format("got type {}, expected {} to {}", h.type, static_cast<int>(FrameType::join),
                       static_cast<int>(FrameType::descriptor));
  if (h.length > kMaxPayload)
    return fmt::format("got length {}, expected at most {}", h.length, kMaxPayload);
  if ((flags & MSG_TRUNC) != 0 || h.length != received - sizeof h)
    return fmt::format("got {} bytes after the header, expected {}", received - sizeof h, h.length);
  if ((flags & MSG_CTRUNC) != 0)
    return "descriptors were cut off: too many came, or this process is at its limit of open files "
           "(ulimit -n)";
  return {};
}

bool is_hang_up(int error) {
  return error == EPIPE || error == ECONNRESET || error == ENOTCONN || error == ECONNREFUSED;
}

}  // namespace

std::string_view name_of(FrameType type) {
  switch (type) {
    case FrameType::join: return "join";
    case FrameType::hello: return "hello";
    case FrameType::all_gather: return "all_gather";
    case FrameType::allocate: return "allocate";
    case FrameType::confirm: return "confirm";
    case FrameType::subgroup: return "subgroup";
    case FrameType::descriptor: return "exchange_descriptor";
  }
  return {};
}

IoStatus send_frame(int socket, const Outgoing& out, std::string& problem) {
  FrameHeader header;
  header.type = static_cast<std::uint16_t>(out.type);
  header.sequence = out.sequence;
  header.length = static_cast<std::uint32_t>(out.bytes.size());
  iovec parts[2] = {{&header, sizeof header},
                    {const_cast<char*>(out.bytes.data()), out.bytes.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))] = {};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = out.bytes.empty() ? 1 : 2;
  message.msg_control = control;
  if (out.fd >= 0) add_control(message, SCM_RIGHTS, out.fd);
  if (out.credentials) add_control(message, SCM_CREDENTIALS, ucred{getpid(), geteuid(), getegid()});
  if (message.msg_controllen == 0) message.msg_control = nullptr;
  for (;;) {
    if (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return IoStatus::done;
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) return IoStatus::again;
    if (is_hang_up(errno)) return IoStatus::closed;
    // A user namespace that does not map our ids refuses credentials; they are a help, no need.
    const bool refused = out.credentials && (errno == EPERM || errno == EINVAL);
    if (refused && out.fd < 0 && message.msg_control != nullptr) {
      message.msg_control = nullptr;
      message.msg_controllen = 0;
      continue;
    }
    problem = fmt::format("sendmsg of {} bytes: {}", out.bytes.size(), errno_text(errno));
    return IoStatus::bad;
  }
}

IoStatus receive_frame(int socket, Frame& frame, std::string& problem) {
  FrameHeader header;
  const auto bytes = std::make_unique_for_overwrite<char[]>(kMaxPayload);
  iovec parts[2] = {{&header, sizeof header}, {bytes.get(), kMaxPayload}};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int)) + CMSG_SPACE(sizeof(ucred))];
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  ssize_t received = -1;
  // A peer that closed with unread data leaves one ECONNRESET before what it sent: try again.
  for (int resets = 0; received < 0;) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    received = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received >= 0 || errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return IoStatus::again;
    if (errno == ECONNRESET && resets++ == 0) continue;
    if (is_hang_up(errno)) return IoStatus::closed;
    problem = fmt::format("recvmsg: {}", errno_text(errno));
    return IoStatus::bad;
  }
  frame = {};
  take_control(message, frame);
  if (received == 0) return IoStatus::closed;
  problem = judge(header, static_cast<std::size_t>(received), message.msg_flags);
  if (!problem.empty()) {
    frame = {};
    return IoStatus::bad;
  }
  frame.type = static_cast<FrameType>(header.type);
  frame.sequence = header.sequence;
  frame.bytes.assign(bytes.get(), header.length);
  return IoStatus::done;
}

std::pair<UniqueFd, UniqueFd> make_socket_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    raise(ErrorKind::system, "communicator: socketpair failed: {}", errno_text(errno));
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void prepare_socket(int fd) {
  int domain = 0;
  int type = 0;
  socklen_t size = sizeof domain;
  const bool socket = getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
                      getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
  require(socket, "communicator: descriptor {} is not a socket: {}", fd, errno_text(errno));
  require(domain == AF_UNIX && type == SOCK_SEQPACKET,
          "communicator: socket: got domain {} and type {}, expected {} (AF_UNIX) and {} "
          "(SOCK_SEQPACKET)",
          domain, type, AF_UNIX, static_cast<int>(SOCK_SEQPACKET));
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  const int room = 4 * static_cast<int>(kMaxPayload);  // the default may be smaller than a frame
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
}

void want_credentials(int fd, bool wanted) {
  const int on = wanted ? 1 : 0;
  setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
}

}  // namespace tilelace::comm
