// SPDX-License-Identifier: Apache-2.0
// Lets ranks find each other and map each other's memory. Ranks are threads of one process, or
// processes of one host. Backends use only this header and signal.h.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/shared_memory.h"
#include "comm/signal.h"
#include "comm/unique_fd.h"

namespace tilelace::comm {

constexpr int kMaxRanks = 64;
/// The most bytes that a rank may pass to all_gather.
constexpr std::size_t kMaxPayload = 64 * 1024;

class Failure;

/// One rank's view of a group. Only one thread at a time may make collective calls; any thread may
/// call const members and abort().
/// A collective that fails with a timeout or peer error ends the group. The reason is then written
/// into every rank's abort word, so that other ranks stop waiting. After a usage error that all
/// ranks see (different calls or sizes), and after a system error in allocate, the group stays
/// usable.
class Group {
 public:
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  /// Does not wait for peers. Peers learn that this rank has left, so they do not take it for dead.
  virtual ~Group();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }

  /// Gathers each rank's bytes (at most kMaxPayload), by rank. Collective, bounded; also a barrier.
  /// Errors: usage (on this rank: too many bytes; on every rank: different calls), peer, timeout.
  virtual std::vector<std::string> all_gather(std::string_view mine, double timeout_s) = 0;

  /// Allocates zero-filled, page-aligned memory. Every rank passes the same value of `bytes`.
  /// Collective, bounded.
  /// Errors: usage (sizes differ: on every rank), system (on every rank), peer, timeout.
  virtual std::shared_ptr<SymmetricMemory> allocate(std::size_t bytes, double timeout_s) = 0;

  /// Makes a group of the listed ranks, in this order. Collective over the listed ranks only.
  /// Errors: peer, timeout, usage on this rank alone (rank missing, listed twice or out of range).
  virtual std::unique_ptr<Group> subgroup(std::span<const int> members, double timeout_s) = 0;

  /// Whether all ranks are threads of this process.
  [[nodiscard]] virtual bool one_process() const = 0;

  /// Passes an open descriptor, which stays the caller's, to every peer. Returns the peers'
  /// descriptors by rank, none for this rank. Collective, bounded. Errors: usage (only on this
  /// rank: the descriptor is not open), system, peer, timeout.
  virtual std::vector<UniqueFd> exchange_descriptor(int mine, double timeout_s) = 0;

  /// Threads only. The last rank to arrive runs its `make`; all ranks get the result or the Error
  /// of `make`. Collective, bounded. Errors: usage (ranks are processes), peer, timeout.
  using Make = std::function<std::shared_ptr<void>()>;
  virtual std::shared_ptr<void> make_together(const Make& make, double timeout_s) = 0;

  /// This rank's abort word, which peers can write; every wait checks it. Lives as long as the
  /// group.
  [[nodiscard]] const AbortWord* abort_word() const;

  /// Writes the reason into every rank's abort word. If this rank was already told a reason, writes
  /// that reason instead (the first write wins). Any thread may call this. Never throws or blocks.
  void abort(AbortReason reason) noexcept;

  /// Throws the typed Error if the abort word is set; `op` begins the Error's text.
  void throw_if_aborted(std::string_view op) const;

  /// Whether this peer has destroyed its Group. For the error texts of timeouts.
  [[nodiscard]] bool has_left(int peer) const;

 protected:
  Group(int rank, int ranks, std::shared_ptr<SymmetricMemory> control);
  void mark_leaving() noexcept;
  /// Writes only this rank's abort word. When a rank dies, every peer's watcher thread calls this.
  void abort_own(AbortReason reason) noexcept;
  /// Ends the group with this failure's reason and throws the failure as an Error.
  [[noreturn]] void give_up(const Failure& failure);

 private:
  int rank_;
  int ranks_;
  std::shared_ptr<SymmetricMemory> control_;
};

/// Makes a group whose ranks are threads of this process. Element r is for the thread of rank r.
/// Not collective.
/// Errors: usage (ranks outside 1..kMaxRanks), system.
std::vector<std::unique_ptr<Group>> make_thread_groups(int ranks);

/// Joins this process, as a rank, to a group that meets in `directory` (made 0700 if absent).
/// Collective.
/// Errors: usage (directory not private, `ranks` differ, a rank twice), system, timeout, peer.
std::unique_ptr<Group> make_process_group(int rank, int ranks, const std::string& directory,
                                          double timeout_s);

/// Like make_process_group, but over connected SOCK_SEQPACKET unix sockets. sockets[p] leads to
/// rank p; sockets[rank] is -1. Takes ownership of the sockets, also on failure. Collective.
std::unique_ptr<Group> make_socket_group(int rank, std::vector<int> sockets, double timeout_s);

/// Makes connected sockets for children that will be forked. result[r][p] is rank r's socket to
/// rank p. Each child keeps its row and closes the other rows (take_row). The parent closes all.
std::vector<std::vector<int>> make_socket_mesh(int ranks);

/// Closes all rows except the row of `rank` and returns that row. If `rank` is -1, closes all rows.
std::vector<int> take_row(std::vector<std::vector<int>>& mesh, int rank);

}  // namespace tilelace::comm
