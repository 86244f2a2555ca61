// SPDX-License-Identifier: Apache-2.0
#include "comm/socket_mesh.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>

#include "comm/failure.h"
#include "comm/members.h"
#include "core/check.h"

namespace tilelace::comm {
namespace {

struct Hello {
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
};

}  // namespace

struct SocketMesh::Transfer {
  FrameType type;
  std::string_view op;
  std::string_view bytes;
  std::vector<Frame> frames;
  std::vector<bool> sent;
  std::vector<bool> received;
};

SocketMesh::SocketMesh(int rank, std::vector<UniqueFd> sockets) : rank_(rank) {
  for (std::size_t p = 0; p < sockets.size(); ++p) {
    if (static_cast<int>(p) != rank) prepare_socket(sockets[p].get());
    Line line;
    line.fd = std::move(sockets[p]);
    lines_.push_back(std::move(line));
  }
}

void SocketMesh::hang_up() noexcept {
  for (const Line& line : lines_)
    if (line.fd) shutdown(line.fd.get(), SHUT_RDWR);
}

std::vector<Post> SocketMesh::everyone(int fd, bool takes_fd) const {
  std::vector<Post> posts;
  for (int p = 0; p < ranks(); ++p)
    if (p != rank_) posts.push_back({p, fd, takes_fd});
  return posts;
}

std::vector<pid_t> SocketMesh::hello(const Deadline& deadline, const Check& check) {
  const std::vector<Post> posts = everyone();
  for (const Post& post : posts) want_credentials(socket(post.peer), true);
  const Hello mine{rank_, ranks()};
  const std::string_view bytes(reinterpret_cast<const char*>(&mine), sizeof mine);
  const std::vector<Frame> frames = exchange(FrameType::hello, bytes, posts, deadline, check);
  std::vector<pid_t> pids(lines_.size(), 0);
  for (std::size_t i = 0; i < posts.size(); ++i) {
    const int peer = posts[i].peer;
    want_credentials(socket(peer), false);
    Hello other;
    if (frames[i].bytes.size() != sizeof other)
      throw Failure(
          ErrorKind::peer, peer,
          fmt::format("communicator: the first message of rank {} has {} bytes, expected {}", peer,
                      frames[i].bytes.size(), sizeof other));
    std::memcpy(&other, frames[i].bytes.data(), sizeof other);
    require(other.rank == peer,
            "communicator: socket to rank {} leads to rank {}, expected rank {}", peer, other.rank,
            peer);
    require(other.ranks == ranks(),
            "communicator: rank {} was given {} ranks, rank {} was given {}: give all the same "
            "number",
            peer, other.ranks, rank_, ranks());
    pids[static_cast<std::size_t>(peer)] = frames[i].pid;
  }
  return pids;
}

std::vector<Frame> SocketMesh::exchange(FrameType type, std::string_view bytes,
                                        std::span<const Post> posts, const Deadline& deadline,
                                        const Check& check) {
  Transfer transfer{type,
                    type == FrameType::hello     ? "communicator"
                    : type == FrameType::confirm ? "allocate"
                                                 : name_of(type),
                    bytes,
                    std::vector<Frame>(posts.size()),
                    std::vector<bool>(posts.size()),
                    std::vector<bool>(posts.size())};
  for (;;) {
    bool whole = true;
    for (std::size_t i = 0; i < posts.size(); ++i)
      whole = advance(transfer, posts[i], i, check) && whole;
    if (whole) break;
    check();
    wait(transfer, posts, deadline);
  }
  require_same_call(transfer, posts);
  return std::move(transfer.frames);
}

/// Does for one peer what can be done now; true when nothing is left to do.
bool SocketMesh::advance(Transfer& transfer, const Post& post, std::size_t i, const Check& check) {
  Line& line = lines_[static_cast<std::size_t>(post.peer)];
  std::string problem;
  if (!transfer.sent[i]) {
    const Outgoing out{transfer.type, line.sent, transfer.bytes, post.fd,
                       transfer.type == FrameType::hello};
    const IoStatus status = send_frame(line.fd.get(), out, problem);
    if (status == IoStatus::closed || status == IoStatus::bad)
      fail(transfer, post.peer, status, problem, check);
    if (status == IoStatus::done) {
      transfer.sent[i] = true;
      ++line.sent;
    }
  }
  if (!transfer.received[i]) {
    Frame& frame = transfer.frames[i];
    const IoStatus status = receive_frame(line.fd.get(), frame, problem);
    if (status == IoStatus::closed || status == IoStatus::bad)
      fail(transfer, post.peer, status, problem, check);
    if (status == IoStatus::done) {
      if (frame.sequence != line.received)
        throw Failure(
            ErrorKind::usage, post.peer,
            fmt::format(
                "{}: rank {} sent message {}, expected message {}: ranks have made different calls",
                transfer.op, post.peer, frame.sequence, line.received));
      transfer.received[i] = true;
      ++line.received;
    }
  }
  return transfer.sent[i] && transfer.received[i];
}

void SocketMesh::wait(const Transfer& transfer, std::span<const Post> posts,
                      const Deadline& deadline) const {
  std::vector<pollfd> polls;
  std::vector<int> missing;
  for (std::size_t i = 0; i < posts.size(); ++i) {
    const int events = (transfer.sent[i] ? 0 : POLLOUT) | (transfer.received[i] ? 0 : POLLIN);
    if (events == 0) continue;
    polls.push_back({socket(posts[i].peer), static_cast<short>(events), 0});
    missing.push_back(posts[i].peer);
  }
  if (deadline.passed())
    throw Failure(ErrorKind::timeout, missing.front(),
                  fmt::format("{}: {} did not come within {:.3g} s", transfer.op,
                              ranks_text(missing), deadline.waited_s()));
  poll(polls.data(), polls.size(), deadline.slice_ms());
}

void SocketMesh::require_same_call(const Transfer& transfer, std::span<const Post> posts) const {
  for (std::size_t i = 0; i < posts.size(); ++i)
    if (transfer.frames[i].type != transfer.type)
      raise(ErrorKind::usage, "{}: {}", transfer.op,
            different_calls(posts[i].peer, name_of(transfer.frames[i].type), rank_,
                            name_of(transfer.type)));
  for (std::size_t i = 0; i < posts.size(); ++i) {
    const std::size_t most = posts[i].takes_fd ? 1 : 0;
    if (transfer.frames[i].fds.size() > most)
      throw Failure(ErrorKind::peer, posts[i].peer,
                    fmt::format("{}: rank {} sent {} descriptors, expected at most {}", transfer.op,
                                posts[i].peer, transfer.frames[i].fds.size(), most));
  }
}

void SocketMesh::fail(const Transfer& transfer, int peer, IoStatus status,
                      const std::string& problem, const Check& check) const {
  check();  // if the group was aborted, that is why the peer went
  if (status == IoStatus::closed)
    throw Failure(ErrorKind::peer, peer,
                  fmt::format("{}: peer rank {} is gone", transfer.op, peer));
  throw Failure(ErrorKind::peer, peer,
                fmt::format("{}: bad message from rank {}: {}", transfer.op, peer, problem));
}

}  // namespace tilelace::comm
