// SPDX-License-Identifier: Apache-2.0
// How the loading warp of ag_gemm waits for rows from peers.
#pragma once
#include "backend/cuda/kernels/admission.h"
#include "schedule/gather_order.h"

namespace tilelace::cuda {

/// Named barrier of the warps that read the call's number: the admitting warp, the loading warp and
/// two warps that may send rows. The call may be counted only after this barrier.
constexpr int kNumberBarrier = 7;
constexpr int kNumberThreads = 128;

/// The waits of the loading warp. Each lane finds flags of its own among those of the rows, and all
/// lanes wait side by side: a warp that handed out flags one by one took 60 ns for each.
template <class Params>
class GatherWaits {
 public:
  TILELACE_DEVICE GatherWaits(const Params& p, Trace trace)
      : p_(p), trace_(trace), lane_(static_cast<int>(threadIdx.x) & 31) {}

  /// Must be called after the previous kernel has ended, when all earlier calls are counted.
  TILELACE_DEVICE void begin() {
    if (p_.rows_here) {
      good_ = __all_sync(~0U, stopped(p_.call.wait) ? 0 : 1) != 0;
      proxy_fence_global();  // stays: the previous kernel's end orders this, too
    }
    epoch_ = call_number(p_.call);
    ptx::arrive_threads(kNumberBarrier, kNumberThreads);
    flags_ = p_.call.flags_at(p_.call.rank);
  }

  /// Waits until TMA can read these rows. Returns false if a wait failed.
  TILELACE_DEVICE bool rows(int section, int first, int last, int tile) {
    if (p_.rows_here) return good_;
    // Flags only grow, so rows that were seen need no second look.
    if (first >= seen_from_ && last <= seen_to_) return true;
    if (lane_ == 0) trace_.add(TraceKind::wait_rows, kLoadLane, tile);
    const bool good = __all_sync(~0U, wait_for_own(section, first, last, tile) ? 1 : 0) != 0;
    proxy_fence_global();  // every lane fences, since any lane may issue loads
    if (lane_ == 0) trace_.add(TraceKind::rows_here, kLoadLane, tile);
    if (good) see(first, last);
    return good;
  }

 private:
  /// Waits for this lane's flags: each 32nd of the flags of all shards, one shard after the other.
  TILELACE_DEVICE bool wait_for_own(int section, int first, int last, int tile) const {
    bool reached = true;
    int own = -1;  // found, but not yet awaited: lanes wait at the same time
    int next = lane_;
    p_.work.order.for_awaited(section, first, last, [&](int flag, int flags) {
      for (; next < flags; next += 32) {
        if (own >= 0) reached = wait(own, tile) && reached;
        own = flag + next;
      }
      next -= flags;
    });
    return (own < 0 || wait(own, tile)) && reached;
  }
  TILELACE_DEVICE bool wait(int flag, int tile) const {
    const WaitPlace place{Role::load, 0, tile, flag / p_.work.order.max_chunks,
                          static_cast<std::uint32_t>(flag)};
    const comm::WaitStatus status = cuda::wait(p_.call.wait, place, flags_ + flag, epoch_);
    trace_.add(TraceKind::flag, kLoadLane, flag);
    return status == comm::WaitStatus::reached;
  }
  TILELACE_DEVICE void see(int first, int last) {
    const bool joins = first <= seen_to_ && last >= seen_from_;
    seen_from_ = joins ? min(first, seen_from_) : first;
    seen_to_ = joins ? max(last, seen_to_) : last;
  }

  const Params& p_;
  Trace trace_;
  int lane_;
  std::uint32_t epoch_ = 0;
  const comm::Flag* flags_ = nullptr;
  int seen_from_ = 0, seen_to_ = 0;  ///< rows that are known to be here
  bool good_ = true;                 ///< if an earlier kernel waited: whether all went well
};

/// For traces: one warp records when each chunk arrives.
template <class Params, class Shared>
TILELACE_DEVICE void watch_rows(const Params& p, Shared shared) {
  const schedule::GatherOrder& order = p.work.order;
  const Trace trace(p, shared.trace());
  const std::uint32_t epoch = admitted_number(shared);
  const comm::Flag* flags = p.call.flags_at(p.call.rank);
  std::uint64_t seen = 0;
  bool all = false;
  while (!all && !stopped(p.call.wait)) {
    int at = static_cast<int>(threadIdx.x) & 31;
    bool mine = true;
    for (int i = 0; i < 64; ++i, at += 32) {
      const int shard = at / order.max_chunks + 1;
      if (shard >= order.ranks) break;
      const int chunk = at % order.max_chunks;
      if (chunk * order.chunk_rows >= order.shard[shard].end - order.shard[shard].begin) continue;
      if ((seen >> i & 1U) != 0) continue;
      const int flag = order.shard[shard].source * order.max_chunks + chunk;
      // stays: no test notices its loss, since it is only for traces
      if (comm::epoch_reached(comm::CudaAtomics::load_acquire(flags + flag), epoch)) {
        trace.add(TraceKind::flag, kWatchLane, flag);
        seen |= 1ULL << i;
      } else {
        mine = false;
      }
    }
    all = __all_sync(~0U, mine ? 1 : 0) != 0;
    ptx::sleep(100);
  }
}

}  // namespace tilelace::cuda
