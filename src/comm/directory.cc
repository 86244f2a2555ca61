// SPDX-License-Identifier: Apache-2.0
#include "comm/directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "comm/failure.h"
#include "comm/group.h"
#include "comm/members.h"
#include "comm/socket.h"
#include "core/check.h"

namespace tilelace::comm {
namespace {

struct Join {
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
};

/// A path that is too long for a socket's address goes by the open directory.
sockaddr_un address_of(const std::string& directory, int opened, int rank) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string path = fmt::format("{}/rank-{}.sock", directory, rank);
  if (path.size() >= sizeof address.sun_path)
    path = fmt::format("/proc/self/fd/{}/rank-{}.sock", opened, rank);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

UniqueFd open_private_directory(const std::string& directory) {
  const bool made = mkdir(directory.c_str(), 0700) == 0;
  require(made || errno == EEXIST, "communicator: directory {} cannot be made: {}", directory,
          errno_text(errno));
  UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  const bool opened = fd && fstat(fd.get(), &info) == 0;
  require(opened, "communicator: directory {} cannot be opened: {}", directory, errno_text(errno));
  require(info.st_uid == geteuid(), "communicator: directory {}: owner: got uid {}, expected {}",
          directory, info.st_uid, geteuid());
  require((info.st_mode & 077) == 0, "communicator: directory {}: got mode {:o}, expected 700",
          directory, info.st_mode & 0777);
  return fd;
}

UniqueFd make_socket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) raise(ErrorKind::system, "communicator: socket failed: {}", errno_text(errno));
  return fd;
}

bool connect_to(int fd, const sockaddr_un& address) {
  return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

void require_same_user(int fd, int rank) {
  ucred who{};
  socklen_t size = sizeof who;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
    raise(ErrorKind::system, "communicator: the peer's user cannot be read (SO_PEERCRED): {}",
          errno_text(errno));
  require(who.uid == geteuid(),
          "communicator: rank {} met a peer that runs as uid {}, expected uid {}", rank, who.uid,
          geteuid());
}

class Meeting {
 public:
  Meeting(int rank, int ranks, const std::string& directory, const Deadline& deadline)
      : rank_(rank),
        ranks_(ranks),
        directory_(directory),
        deadline_(deadline),
        sockets_(static_cast<std::size_t>(ranks)),
        dialed_(static_cast<std::size_t>(ranks)) {}
  ~Meeting() {
    if (listener_) unlink(address(rank_).sun_path);
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  std::vector<UniqueFd> run();

 private:
  [[nodiscard]] sockaddr_un address(int rank) const {
    return address_of(directory_, opened_.get(), rank);
  }
  void lock();
  void listen_here();
  void dial(int peer);
  void hear_dialed(int peer);
  void accept_strangers();
  void hear_strangers();
  void wait();
  void require_agreement(const Frame& frame, int expected);
  [[nodiscard]] Outgoing join() const;

  int rank_;
  int ranks_;
  std::string directory_;
  Deadline deadline_;
  UniqueFd opened_;  ///< the directory
  UniqueFd listener_;
  std::vector<UniqueFd> sockets_;    ///< by rank: those who joined
  std::vector<UniqueFd> dialed_;     ///< by rank: connected, their answer has not come
  std::vector<UniqueFd> strangers_;  ///< accepted, have not said who they are
  Join mine_{};
};

Outgoing Meeting::join() const {
  return {FrameType::join, 0, {reinterpret_cast<const char*>(&mine_), sizeof mine_}};
}

/// Lets a dead rank's file be told from a live one's.
void Meeting::lock() {
  while (flock(opened_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      raise(ErrorKind::system, "communicator: directory {} cannot be locked: {}", directory_,
            errno_text(errno));
    if (deadline_.passed())
      raise(ErrorKind::timeout,
            "communicator: directory {} stayed locked for {:.3g} s: another rank may have stopped "
            "while it held the lock",
            directory_, deadline_.waited_s());
    poll(nullptr, 0, 2);
  }
}

/// Binds the own file.
void Meeting::listen_here() {
  opened_ = open_private_directory(directory_);
  const sockaddr_un address = this->address(rank_);
  lock();
  UniqueFd fd = make_socket();
  if (connect_to(make_socket().get(), address) || errno == EAGAIN)
    raise(ErrorKind::usage,
          "communicator: rank {} is already in {}: give each process its own rank, and each job "
          "its own directory or MASTER_PORT",
          rank_, directory_);
  unlink(address.sun_path);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    raise(ErrorKind::system, "communicator: bind to {} failed: {}", address.sun_path,
          errno_text(errno));
  listener_ = std::move(fd);
  if (listen(listener_.get(), 2 * kMaxRanks) != 0)
    raise(ErrorKind::system, "communicator: listen failed: {}", errno_text(errno));
  flock(opened_.get(), LOCK_UN);
}

/// One try to connect; a rank that is not there yet is tried again later.
void Meeting::dial(int peer) {
  UniqueFd fd = make_socket();
  if (!connect_to(fd.get(), address(peer))) {
    const bool later = errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN ||
                       errno == EINTR || errno == ECONNRESET;
    if (!later)
      raise(ErrorKind::system, "communicator: connecting to rank {} failed: {}", peer,
            errno_text(errno));
    return;
  }
  require_same_user(fd.get(), rank_);
  std::string problem;
  if (send_frame(fd.get(), join(), problem) == IoStatus::done)
    dialed_[static_cast<std::size_t>(peer)] = std::move(fd);
}

void Meeting::hear_dialed(int peer) {
  UniqueFd& fd = dialed_[static_cast<std::size_t>(peer)];
  Frame frame;
  std::string problem;
  switch (receive_frame(fd.get(), frame, problem)) {
    case IoStatus::again: return;
    case IoStatus::closed: fd.reset(); return;  // it was ending: dial again
    case IoStatus::bad:
      throw Failure(ErrorKind::peer, peer,
                    fmt::format("communicator: bad message from rank {}: {}", peer, problem));
    case IoStatus::done: break;
  }
  require_agreement(frame, peer);
  sockets_[static_cast<std::size_t>(peer)] = std::move(fd);
}

void Meeting::accept_strangers() {
  for (;;) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    require_same_user(fd.get(), rank_);
    strangers_.push_back(std::move(fd));
  }
}

void Meeting::hear_strangers() {
  for (UniqueFd& fd : strangers_) {
    Frame frame;
    std::string problem;
    const IoStatus status = receive_frame(fd.get(), frame, problem);
    if (status == IoStatus::again) continue;
    if (status == IoStatus::closed) {  // only looked whether someone is here
      fd.reset();
      continue;
    }
    if (status == IoStatus::bad)
      raise(ErrorKind::peer, "communicator: bad message from a process in {}: {}", directory_,
            problem);
    // Answer before judging: a rank that disagrees shall see why.
    send_frame(fd.get(), join(), problem);
    require_agreement(frame, -1);
    Join other;
    std::memcpy(&other, frame.bytes.data(), sizeof other);
    sockets_[static_cast<std::size_t>(other.rank)] = std::move(fd);
  }
  std::erase_if(strangers_, [](const UniqueFd& fd) { return !fd; });
}

/// `expected`: the rank that was dialed; -1: any higher one that is not here yet.
void Meeting::require_agreement(const Frame& frame, int expected) {
  Join other;
  if (frame.type != FrameType::join || frame.bytes.size() != sizeof other || !frame.fds.empty())
    raise(ErrorKind::peer,
          "communicator: {}: got a message {} with {} bytes and {} descriptors, expected a join "
          "message with {} bytes and no descriptors",
          directory_, name_of(frame.type), frame.bytes.size(), frame.fds.size(), sizeof other);
  std::memcpy(&other, frame.bytes.data(), sizeof other);
  require(
      other.ranks == ranks_,
      "communicator: rank {} was given {} ranks, rank {} was given {}: give all the same number",
      other.rank, other.ranks, rank_, ranks_);
  if (expected >= 0) {
    require(other.rank == expected,
            "communicator: the socket of rank {} answered as rank {}, expected {}", expected,
            other.rank, expected);
    return;
  }
  require(other.rank > rank_ && other.rank < ranks_,
          "communicator: rank {} connected to rank {}, expected a rank from {} to {}", other.rank,
          rank_, rank_ + 1, ranks_ - 1);
  require(!sockets_[static_cast<std::size_t>(other.rank)],
          "communicator: rank {} connected twice to rank {}: each rank joins once", other.rank,
          rank_);
}

/// Sleeps until something happens. Errors: timeout; peer, when one that had come gives up.
void Meeting::wait() {
  std::vector<int> missing;
  std::vector<pollfd> polls;
  polls.push_back({listener_.get(), POLLIN, 0});
  for (const UniqueFd& fd : strangers_) polls.push_back({fd.get(), POLLIN, 0});
  const std::size_t first = polls.size();
  for (std::size_t p = 0; p < sockets_.size(); ++p) {
    const bool here = static_cast<int>(p) == rank_ || sockets_[p];
    if (!here) missing.push_back(static_cast<int>(p));
    polls.push_back({sockets_[p].get(), POLLRDHUP, 0});
    if (dialed_[p]) polls.push_back({dialed_[p].get(), POLLIN, 0});
  }
  if (deadline_.passed())
    throw Failure(ErrorKind::timeout, missing.front(),
                  fmt::format("communicator: {} did not join in directory {} within {:.3g} s "
                              "({} ranks are needed)",
                              ranks_text(missing), directory_, deadline_.waited_s(), ranks_));
  poll(polls.data(), polls.size(), deadline_.slice_ms(5));
  for (std::size_t i = first; i < polls.size(); ++i) {
    if ((polls[i].revents & (POLLRDHUP | POLLHUP)) == 0) continue;
    for (std::size_t p = 0; p < sockets_.size(); ++p)
      if (sockets_[p].get() == polls[i].fd)
        throw Failure(ErrorKind::peer, static_cast<int>(p),
                      fmt::format("communicator: peer rank {} gave up: {} had not joined in {}", p,
                                  ranks_text(missing), directory_));
  }
}

std::vector<UniqueFd> Meeting::run() {
  mine_ = {rank_, ranks_};
  listen_here();
  for (;;) {
    accept_strangers();
    hear_strangers();
    bool whole = true;
    for (int p = 0; p < ranks_; ++p) {
      const auto i = static_cast<std::size_t>(p);
      if (p == rank_ || sockets_[i]) continue;
      if (p < rank_ && !dialed_[i]) dial(p);
      if (p < rank_ && dialed_[i]) hear_dialed(p);
      whole = whole && sockets_[i];
    }
    if (whole) return std::move(sockets_);
    wait();
  }
}

}  // namespace

std::vector<UniqueFd> meet_in_directory(int rank, int ranks, const std::string& directory,
                                        const Deadline& deadline) {
  return Meeting(rank, ranks, directory, deadline).run();
}

}  // namespace tilelace::comm
