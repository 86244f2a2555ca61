// SPDX-License-Identifier: Apache-2.0
// One call of one rank: the state that its threads share, and the verbs that all ops use.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/link.h"
#include "comm/signal.h"
#include "comm/std_atomics.h"
#include "plan/base/schedules.h"
#include "plan/collectives/collective.h"

namespace tilelace::cpu {

using schedule::Index;
using schedule::RowRange;

/// A rank's page. Each peer writes a header word here, with a hash of its call; the rank itself
/// writes a card, which describes its call in words. Calls alternate between two of each, because a
/// rank may be in its next call when a peer still reads the card of a call that was refused.
struct Control {
  std::array<std::array<comm::Header, comm::kMaxRanks>, 2> headers;
  std::array<std::array<char, 1024>, 2> cards;  // room for 64 shard sizes and a plan
};

/// Header hash of a refused call; its card says why.
constexpr std::uint32_t kRefused = 0;
/// Header hash of a rank in prepare.
constexpr std::uint32_t kPreparing = 1;
/// Header hash of a rank that allocates the staging of collectives, before its first collective.
constexpr std::uint32_t kPreparingCollectives = 2;
/// Header hash kUnfit + r says that the sender's all_to_all does not fit that of rank r. All peers
/// get this header instead of the call's, so that they do not wait for these two ranks.
constexpr std::uint32_t kUnfit = 64;
static_assert(kUnfit + comm::kMaxRanks <= plan::kFirstHash);

/// Thrown if another rank is in a different call. The catcher throws an Error instead, which quotes
/// both ranks' cards.
struct Disagreement {
  int peer = 0;
};

/// One slot (a call's staging) on all ranks. Rank r has flags at flags(r) and data at data(r).
struct SlotView {
  std::byte* base = nullptr;  ///< address of rank 0's slot
  std::size_t stride = 0;     ///< bytes from one rank's slot to the next
  std::int64_t flag_bytes = 0;

  [[nodiscard]] comm::Flag* flags(int rank) const {
    return reinterpret_cast<comm::Flag*>(base + static_cast<std::size_t>(rank) * stride);
  }
  [[nodiscard]] std::byte* data(int rank) const {
    return base + static_cast<std::size_t>(rank) * stride + flag_bytes;
  }
};

struct Call {
  comm::Group* group = nullptr;
  std::byte* control = nullptr;  ///< rank 0's Control
  std::size_t control_stride = 0;
  SlotView slot;
  std::uint32_t epoch = 0;
  std::uint32_t hash = 0;
  /// For all_to_all, where each pair of ranks has its own hashes: hashes_to[r] is sent to rank r,
  /// and hashes_from[r] is expected from rank r. Else both are empty, and `hash` is for all ranks.
  std::vector<std::uint32_t> hashes_to, hashes_from;
  double timeout_s = 0;
  std::span<const std::unique_ptr<Link>> links;  ///< the links to all ranks, by rank
  const Problem* problem = nullptr;
  const Plan* plan = nullptr;
  const Operands* operands = nullptr;
  plan::SlotLayout layout;
  std::string_view name;  ///< the op's name, for error texts

  [[nodiscard]] int rank() const { return group->rank(); }
  [[nodiscard]] Link& link(int peer) const { return *links[static_cast<std::size_t>(peer)]; }
  [[nodiscard]] Control& control_of(int rank) const {
    return *reinterpret_cast<Control*>(control + static_cast<std::size_t>(rank) * control_stride);
  }

  /// The word in which rank `from` announces this call to rank `to`.
  [[nodiscard]] comm::Header* header(int to, int from) const {
    return &control_of(to).headers[epoch & 1U][from];
  }

  void send_header(int peer, std::uint32_t word) const {
    link(peer).send_header(header(peer, rank()), epoch, word);
  }
  void send_header(int peer) const {
    send_header(peer, hashes_to.empty() ? hash : hashes_to[static_cast<std::size_t>(peer)]);
  }
  [[nodiscard]] std::uint32_t expected_of(int peer) const {
    return hashes_from.empty() ? hash : hashes_from[static_cast<std::size_t>(peer)];
  }

  /// Keeps this failure unless another thread of this rank has failed before.
  void fail(std::exception_ptr);
  void rethrow_failure();
  /// Deadline of a wait that begins now.
  [[nodiscard]] std::int64_t deadline_ns() const {
    return comm::StdAtomics::now_ns() + static_cast<std::int64_t>(timeout_s * 1e9);
  }
  /// Condition of waits for a peer's header: the header has arrived, or the peer has left.
  [[nodiscard]] auto here_or_gone(int peer) const {
    return [this, peer, round = 0U](comm::Header have) mutable {
      if (comm::epoch_reached(comm::header_epoch(have), epoch)) return true;
      return (++round & 63U) == 0 && group->has_left(peer);
    };
  }
  /// After a wait for here_or_gone: if the peer left before this call, ends the group's waits and
  /// throws.
  void require_here(int peer, const comm::Header* word) const;
  /// Throws Disagreement if a peer's header of this call has arrived and differs.
  void check_agreement() const;

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
};

/// A thread of a rank in a call: a compute worker or, with worker -1, the thread that copies.
struct Actor {
  int worker = -1;
  [[nodiscard]] const char* role() const { return worker < 0 ? "copy" : "compute"; }
};

/// Verbs (steps that schedules call) for flags and headers. `meaning` describes a flag in words and
/// says which rank raises it.
class CallVerbs {
 public:
  CallVerbs(Call& call, Actor actor) : call_(call), actor_(actor) {}

  void signal_header(int peer);
  void signal(int peer, Index flag);
  void wait(Index flag);
  void admit();

 protected:
  struct Meaning {
    int writer = 0;
    std::string text;
  };
  ~CallVerbs() = default;
  [[nodiscard]] virtual Meaning meaning(Index flag) const = 0;
  [[noreturn]] void expired(const Meaning&, std::uint32_t have);
  /// Ends the group's waits and throws a timeout error; `about` is the rank to blame.
  [[noreturn]] void time_out(int about, const std::string& text);
  [[noreturn]] void aborted();
  /// Throws if the rank that should raise this flag has left without raising it.
  void check_presence(Index flag);
  /// Moves rows to or from the peer, over the link.
  void move_rows(int peer, const RowsCopy& c) {
    finish(call_.link(peer).copy(c, bound()), c.bytes());
  }
  /// Runs `store`, which writes this many bytes to the peer's memory. Only on links that map
  /// memory.
  template <class Store>
  void store_over(int peer, std::int64_t bytes, const Store& store) {
    finish(call_.link(peer).store(bytes, std::cref(store), bound()), bytes);
  }
  /// Throws unless the link's verb finished in time.
  void finish(comm::WaitStatus, std::int64_t bytes);
  void point(const char* copy_point, const char* compute_point) const;
  /// Called before this actor touches a peer's slot. Ranks in different calls lay out slots
  /// differently, so an actor first waits for all headers (a few microseconds).
  void before_peer_memory() {
    if (!admitted_) admit();
  }

  Call& call_;
  Actor actor_;
  std::int64_t steps_ = 0;
  bool admitted_ = false;

 private:
  [[nodiscard]] Bound bound() const { return {call_.group->abort_word(), call_.deadline_ns()}; }
};

}  // namespace tilelace::cpu
