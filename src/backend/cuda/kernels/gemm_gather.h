// SPDX-License-Identifier: Apache-2.0
// What the loading warp of ag_gemm's GEMM does besides: waits for rows.
#pragma once
#include "backend/cuda/kernels/gemm_gate.h"
#include "backend/cuda/kernels/gemm_params.h"
#include "backend/cuda/kernels/gemm_shape.h"

namespace tilelace::cuda {

TILELACE_DEVICE const comm::Flag* own_flags(const AgGemmParams& p) {
  return reinterpret_cast<const comm::Flag*>(p.call.base + p.call.rank * p.call.stride +
                                             p.call.flags);
}

/// Waits of the loading warp, whose lanes wait side by side.
class GatherWaits {
 public:
  TILELACE_DEVICE GatherWaits(const AgGemmParams& p, Trace trace)
      : p_(p), trace_(trace), lane_(static_cast<int>(threadIdx.x) & 31) {}

  /// After the kernel before this one, which counts the calls.
  TILELACE_DEVICE void begin() {
    epoch_ = call_number(p_.call);
    ptx::arrive_threads(kNumberBarrier, kNumberThreads);
  }

  /// Waits until these rows can be read by TMA; false: they never came.
  TILELACE_DEVICE bool rows(int section, int first, int last, int segment) {
    bool good = true;
    for (int j = lane_;; j += 32) {
      const int flag = p_.work.order.awaited(section, first, last, j);
      good = wait(flag, segment) && good;
      if (__any_sync(~0U, flag < 0 ? 1 : 0) != 0) return good;
    }
  }

 private:
  /// A lane's flag, -1: none. By the whole warp, the same to all.
  TILELACE_DEVICE bool wait(int flag, int segment) {
    // Flags only grow: once is enough.
    const bool seen = flag < 0 || (flag < 64 && (seen_ >> flag & 1U) != 0);
    if (__all_sync(~0U, seen ? 1 : 0) != 0) return true;
    bool reached = true;
    if (lane_ == 0) trace_.add(TraceKind::wait_rows, kLoadLane, segment);
    if (!seen) {
      const int peer = flag / p_.work.order.max_chunks;
      const WaitPlace place{Role::load, segment, -1, peer, static_cast<std::uint32_t>(flag)};
      reached = cuda::wait(p_.call.wait, place, own_flags(p_) + flag, epoch_) ==
                comm::WaitStatus::reached;
      trace_.add(TraceKind::flag, kLoadLane, flag);
    }
    const bool good = __all_sync(~0U, reached ? 1 : 0) != 0;
    seen_ |= __reduce_or_sync(~0U, flag >= 0 && flag < 32 ? 1U << flag : 0);
    seen_ |= std::uint64_t{__reduce_or_sync(~0U, flag >= 32 && flag < 64 ? 1U << (flag - 32) : 0)}
             << 32;
    proxy_fence_global();  // for whichever lane loads
    if (lane_ == 0) trace_.add(TraceKind::rows_here, kLoadLane, segment);
    return good;
  }

  const AgGemmParams& p_;
  Trace trace_;
  int lane_;
  std::uint32_t epoch_ = 0;
  std::uint64_t seen_ = 0;
};

/// Traces only, one warp: writes down when each chunk lands, whoever needs it when.
template <class Tile>
TILELACE_DEVICE void watch_rows(const AgGemmParams& p, GemmShared<Tile> shared) {
  const schedule::GatherOrder& order = p.work.order;
  const Trace trace(p, shared.trace());
  const std::uint32_t epoch = admitted_number(shared);
  const comm::Flag* const flags = own_flags(p);
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
