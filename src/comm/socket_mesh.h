// SPDX-License-Identifier: Apache-2.0
// One rank's sockets to all other ranks. An exchange sends a frame to each peer and receives a
// frame from each peer.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "comm/deadline.h"
#include "comm/socket.h"

namespace tilelace::comm {

/// What is sent to one peer, and what may come back.
struct Post {
  int peer = -1;
  int fd = -1;            ///< passed along with the bytes
  bool takes_fd = false;  ///< whether one descriptor may come back (more are an error)
};

class SocketMesh {
 public:
  /// Called from time to time while waiting; throws to give up.
  using Check = std::function<void()>;

  /// sockets[p] leads to rank p. Errors: usage (a socket is not a SOCK_SEQPACKET unix socket).
  SocketMesh(int rank, std::vector<UniqueFd> sockets);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(lines_.size()); }
  [[nodiscard]] int socket(int peer) const {
    return lines_[static_cast<std::size_t>(peer)].fd.get();
  }
  /// Shuts the sockets down, so that peers see them close even if a forked process has copies.
  void hang_up() noexcept;
  /// A post for every peer.
  [[nodiscard]] std::vector<Post> everyone(int fd = -1, bool takes_fd = false) const;

  /// Exchanges ranks with every peer. Returns their pids (0: unknown). Errors: usage (ranks that
  /// disagree), Failure of kind peer or timeout.
  std::vector<pid_t> hello(const Deadline& deadline, const Check& check);

  /// Sends the bytes to each peer and receives a frame of the same type from each, in the order of
  /// the posts. Errors: usage (a peer is in another call), Failure (peer, timeout; usage if ranks
  /// are out of step), what check throws. After an Error that is not a Failure the ranks are still
  /// in step.
  std::vector<Frame> exchange(FrameType type, std::string_view bytes, std::span<const Post> posts,
                              const Deadline& deadline, const Check& check);

 private:
  struct Line {
    UniqueFd fd;
    std::uint32_t sent = 0;  ///< frames sent so far; also the next frame's sequence number
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
