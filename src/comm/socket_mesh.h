// SPDX-License-Identifier: Apache-2.0
// One rank's sockets to all others, and the one thing that is done with them: to give every peer
// a frame and take one from each.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "comm/deadline.h"
#include "comm/socket.h"

namespace tilelace::comm {

/// What one peer is given, and what may come back.
struct Post {
  int peer = -1;
  int fd = -1;            ///< passed along with the bytes
  bool takes_fd = false;  ///< whether one descriptor may come back; more is an error
};

class SocketMesh {
 public:
  /// Called now and then while waiting; throws to give up.
  using Check = std::function<void()>;

  /// sockets[p] leads to rank p. Errors: usage (not such sockets).
  SocketMesh(int rank, std::vector<UniqueFd> sockets);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(lines_.size()); }
  [[nodiscard]] int socket(int peer) const {
    return lines_[static_cast<std::size_t>(peer)].fd.get();
  }
  /// Peers see the end of the sockets, also where a forked process has copies of them.
  void hang_up() noexcept;
  /// A post for every peer.
  [[nodiscard]] std::vector<Post> everyone(int fd = -1, bool takes_fd = false) const;

  /// Tells every peer who we are and hears the same. Returns their pids (0: not known).
  /// Errors: usage (ranks that disagree), Failure of kind peer or timeout.
  std::vector<pid_t> hello(const Deadline& deadline, const Check& check);

  /// Sends the bytes to each peer of the posts and receives a frame of the same type from each, in
  /// the order of the posts. Errors: usage (a peer is in another call), Failure (peer, timeout; out
  /// of step: usage), what check throws. Still in step after an Error that is no Failure.
  std::vector<Frame> exchange(FrameType type, std::string_view bytes, std::span<const Post> posts,
                              const Deadline& deadline, const Check& check);

 private:
  struct Line {
    UniqueFd fd;
    std::uint32_t sent = 0;  ///< frames so far: the sequence number of the next
    std::uint32_t received = 0;
  };
  struct Transfer;

  bool advance(Transfer& transfer, const Post& post, std::size_t i, const Check& check);
  void wait(const Transfer& transfer, std::span<const Post> posts, const Deadline& deadline) const;
  void require_same_call(const Transfer& transfer, std::span<const Post> posts) const;
  [[noreturn]] void fail(const Transfer& transfer, int peer, IoStatus status,
                         const std::string& problem, const Check& check) const;

  int rank_;
  std::vector<Line> lines_;
};

}  // namespace tilelace::comm
