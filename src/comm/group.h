// SPDX-License-Identifier: Apache-2.0
// Ranks find each other and map each other's memory: threads of one process, or processes of one
// host. What is built on top (backends) sees only this header and signal.h.
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
/// The most that one rank may pass to all_gather.
constexpr std::size_t kMaxPayload = 64 * 1024;

class Failure;

/// One rank's view of a group. Collective calls come from one thread at a time; the const members
/// and abort() from any.
/// A collective that fails with kind timeout or peer ends the group: the reason is written into
/// every rank's abort word, so that the other ranks do not wait for their own bound. After a usage
/// error that all ranks see (calls or sizes that differ), and after a system error in allocate, the
/// group stays in step and usable.
class Group {
 public:
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  /// Never waits for a peer. Peers see this rank leave, not die.
  virtual ~Group();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }

  /// Everyone's bytes (each at most kMaxPayload), by rank. Collective, bounded; a barrier, too.
  /// Errors: usage (too long: local; another call elsewhere), peer, timeout.
  virtual std::vector<std::string> all_gather(std::string_view mine, double timeout_s) = 0;

  /// Zero-filled, page-aligned memory; every rank passes the same bytes. Collective, bounded.
  /// Errors: usage (sizes differ: on every rank), system (on every rank), peer, timeout.
  virtual std::shared_ptr<SymmetricMemory> allocate(std::size_t bytes, double timeout_s) = 0;

  /// A group of the listed ranks, in this order. Collective over the listed ranks only.
  /// Errors: usage (own rank not listed, listed twice, out of range: local), peer, timeout.
  virtual std::unique_ptr<Group> subgroup(std::span<const int> members, double timeout_s) = 0;

  /// Whether all ranks are threads of this process.
  [[nodiscard]] virtual bool one_process() const = 0;

  /// Passes an open descriptor, which stays the caller's, to every peer; returns theirs by rank,
  /// none at the own place. Collective, bounded. Errors: usage (not open: local), system, peer,
  /// timeout.
  virtual std::vector<UniqueFd> exchange_descriptor(int mine, double timeout_s) = 0;

  /// Threads only: the last rank to come runs its `make`, everyone gets what it returned, or the
  /// Error that it threw. Collective, bounded. Errors: usage (ranks are processes), peer, timeout.
  using Make = std::function<std::shared_ptr<void>()>;
  virtual std::shared_ptr<void> make_together(const Make& make, double timeout_s) = 0;

  /// This rank's abort word, which peers can write: every wait watches it. Lives as the group does.
  [[nodiscard]] const AbortWord* abort_word() const;

  /// Writes the reason, or the one that this rank has been told before, into every rank's abort
  /// word (in each the first writer wins). Any thread; never throws, never blocks.
  void abort(AbortReason reason) noexcept;

  /// Throws the typed Error if the abort word is set; `op` begins its text.
  void throw_if_aborted(std::string_view op) const;

  /// Whether this peer has destroyed its Group (a hint for the text of a timeout).
  [[nodiscard]] bool has_left(int peer) const;

 protected:
  Group(int rank, int ranks, std::shared_ptr<SymmetricMemory> control);
  void mark_leaving() noexcept;
  /// Only into the own word: what the death watch writes, each survivor for itself.
  void abort_own(AbortReason reason) noexcept;
  /// Ends the group for this reason and throws it.
  [[noreturn]] void give_up(const Failure& failure);

 private:
  int rank_;
  int ranks_;
  std::shared_ptr<SymmetricMemory> control_;
};

/// All ranks as members of this process; element r is for the thread of rank r. Local.
/// Errors: usage (ranks outside 1..kMaxRanks), system.
std::vector<std::unique_ptr<Group>> make_thread_groups(int ranks);

/// This process as a rank of a group that meets in `directory` (made 0700 if absent). Collective.
/// Errors: usage (directory not private, ranks that disagree or come twice), system, timeout, peer.
std::unique_ptr<Group> make_process_group(int rank, int ranks, const std::string& directory,
                                          double timeout_s);

/// As make_process_group over connected SOCK_SEQPACKET unix sockets: sockets[p] leads to rank p,
/// -1 at the own place. Owns them, also when it fails. Collective.
std::unique_ptr<Group> make_socket_group(int rank, std::vector<int> sockets, double timeout_s);

/// Connected pairs for children that will be forked: result[r][p] is rank r's end to rank p.
/// Each child keeps its own row and closes the others (take_row), the parent closes all.
std::vector<std::vector<int>> make_socket_mesh(int ranks);

/// Closes all rows but the row of `rank`, which it returns; rank -1 closes all.
std::vector<int> take_row(std::vector<std::vector<int>>& mesh, int rank);

}  // namespace tilelace::comm
