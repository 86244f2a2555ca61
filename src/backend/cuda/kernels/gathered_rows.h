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

/// The verb wait of the loading warp. Flags are spread over its lanes, which wait in parallel.
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
    tile_ = tile;
    good_ = true;
    p_.work.order.wait_for_rows(section, first, last, *this);
    wait_dealt();
    return good_;
  }

  TILELACE_DEVICE void wait(int flag) {
    // Flags only grow, so a flag that was seen need not be checked again.
    if (flag < 64) {
      if ((seen_ >> flag & 1U) != 0) return;
      seen_ |= 1ULL << flag;
    }
    if (dealt_ == lane_) flag_ = flag;
    if (++dealt_ == 32) wait_dealt();
  }

 private:
  TILELACE_DEVICE void wait_dealt() {
    if (dealt_ == 0) return;
    bool reached = true;
    if (lane_ == 0) trace_.add(TraceKind::wait_rows, kLoadLane, tile_);
    if (lane_ < dealt_) {
      const int peer = flag_ / p_.work.order.max_chunks;
      const WaitPlace place{Role::load, 0, tile_, peer, static_cast<std::uint32_t>(flag_)};
      reached =
          cuda::wait(p_.call.wait, place, flags_ + flag_, epoch_) == comm::WaitStatus::reached;
      trace_.add(TraceKind::flag, kLoadLane, flag_);
    }
    dealt_ = 0;
    good_ = __all_sync(~0U, reached ? 1 : 0) != 0 && good_;
    proxy_fence_global();  // every lane fences, since any lane may issue loads
    if (lane_ == 0) trace_.add(TraceKind::rows_here, kLoadLane, tile_);
  }

  const Params& p_;
  Trace trace_;
  int lane_;
  std::uint32_t epoch_ = 0;
  const comm::Flag* flags_ = nullptr;
  std::uint64_t seen_ = 0;
  int dealt_ = 0, flag_ = 0, tile_ = 0;
  bool good_ = true;
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
