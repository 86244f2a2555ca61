// SPDX-License-Identifier: Apache-2.0
// Collectives that read and write the peers' tensors, without staging.
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/collectives/exchange_kernels.h"
#include "backend/cuda/device/early_launch.h"
#include "backend/cuda/device/warp_flags.h"

namespace tilelace::cuda {
namespace {

using schedule::ExchangeRound;
using schedule::Index;

constexpr int kDirectWarps = static_cast<int>(plan::kChunkWorkers);
/// Units of a lane whose loads are under way together.
constexpr int kMovedUnits = 4;

/// Verbs of run_direct_exchange, for a warp: all its lanes call all of them. Of two ranks, or of up
/// to kMost, which take more registers.
template <class Reduced, int kMost>
class DirectVerbs {
 public:
  TILELACE_DEVICE DirectVerbs(const ExchangeParams& p, std::uint32_t epoch)
      : p_(p), flags_(p, epoch) {}

  TILELACE_DEVICE void admit() {
    flags_.admit();
    flags_.settle(0);
  }

  TILELACE_DEVICE void send(ExchangeRound r) const {
    if (flags_.failed()) return;
    const schedule::Exchange& s = p_.schedule;
    for (int i = 1; i < ranks(); ++i) {
      const int q = peer(i);
      const schedule::RowRange part = s.part(r, s.sends[q]);
      const Units from = Units(p_.sends[q]).from(part.begin);
      move(part, from, Units({p_.results[q], p_.sends[q].bytes}).from(part.begin));
    }
  }

  TILELACE_DEVICE void take(ExchangeRound r) const {
    if (flags_.failed()) return;
    const schedule::Exchange& s = p_.schedule;
    if (s.sums) return reduce(r);
    if (p_.sends[s.rank].data == p_.takes[s.rank].data) return;
    const schedule::RowRange part = s.part(r, s.sends[s.rank]);
    move(part, Units(p_.sends[s.rank]).from(part.begin), Units(p_.takes[s.rank]).from(part.begin));
  }

  TILELACE_DEVICE void signal(int to, Index word) { flags_.signal(to, word, 0); }
  TILELACE_DEVICE void wait(Index word) { flags_.wait(word); }
  /// Behind the last verb.
  TILELACE_DEVICE void end() { flags_.settle(0); }

 private:
  /// Terms whose loads are under way together, and units of a lane.
  static constexpr int kTerms = kMost == 2 ? 2 : 4, kSums = kMost == 2 ? 2 : 1;

  [[nodiscard]] TILELACE_DEVICE int ranks() const { return kMost == 2 ? 2 : p_.schedule.ranks; }
  [[nodiscard]] TILELACE_DEVICE int peer(int i) const {
    return kMost == 2 ? 1 - p_.schedule.rank : (p_.schedule.rank + i) % p_.schedule.ranks;
  }
  TILELACE_DEVICE static void move(schedule::RowRange part, const Units& from, const Units& to) {
    move_units<kMovedUnits>(
        part, [&](int unit) { return from.load(unit); },
        [&](int unit, const uint4& v) { to.store(unit, v); });
  }

  /// The terms of up to kTerms ranks of kSums units from `at` on, in rank order.
  TILELACE_DEVICE void add(Reduced (&sum)[kSums], int from_rank, Index begin, int at,
                           int units) const {
    uint4 v[kTerms][kSums];
#pragma unroll
    for (int t = 0; t < kTerms; ++t) {
      if (from_rank + t >= ranks()) continue;
      const Units term = Units({p_.inputs[from_rank + t], p_.takes[p_.schedule.rank].bytes});
#pragma unroll
      for (int u = 0; u < kSums; ++u)
        if (at + u * 32 < units) v[t][u] = term.load(begin + at + u * 32);
    }
#pragma unroll
    for (int t = 0; t < kTerms; ++t)
#pragma unroll
      for (int u = 0; u < kSums; ++u)
        if (from_rank + t < ranks()) sum[u].add(v[t][u]);
  }

  TILELACE_DEVICE void reduce(ExchangeRound r) const {
    const schedule::Exchange& s = p_.schedule;
    const ParcelAt& own = p_.takes[s.rank];
    const schedule::RowRange part = s.part(r, s.takes[s.rank]);
    const auto units = static_cast<int>(part.size());
    for (int at = WarpFlags::lane(); at < units; at += kSums * 32) {
      Reduced sum[kSums];
      for (int q = 0; q < ranks(); q += kTerms) add(sum, q, part.begin, at, units);
#pragma unroll
      for (int u = 0; u < kSums; ++u) {
        const Index unit = part.begin + at + u * 32;
        if (at + u * 32 >= units) continue;
        const uint4 done = sum[u].done(p_.divisor);
        for (int i = 1; i < ranks() && s.shares; ++i)
          Units({p_.results[peer(i)], own.bytes}).store(unit, done);
        Units(own).store(unit, done);
      }
    }
  }

  const ExchangeParams& p_;
  WarpFlags flags_;
};

template <class Reduced, int kMost>
__global__ void __launch_bounds__(32 * kDirectWarps, plan::kCtasOfTwo)
    direct_kernel(const __grid_constant__ ExchangeParams p) {
  begin_exchange(p, p);
  const std::uint32_t epoch = call_number(p.call);
  if (blockIdx.x == 0 && threadIdx.x < 32) {
    // stays: peers read this input behind the header, which emulated GPUs take for a release
    if (p.schedule.sums) __threadfence_system();
    tell_peers<true>(p, epoch);
  }
  DirectVerbs<Reduced, kMost> verbs(p, epoch);
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
  schedule::run_direct_exchange(p.schedule, static_cast<int>(blockIdx.x) * kDirectWarps + warp,
                                verbs);
  verbs.end();
}

using DirectKernel = void (*)(ExchangeParams);

DirectKernel direct_kernel_of(const ExchangeParams& p) {
  return with_reduction(p, [&](auto r) -> DirectKernel {
    using Reduced = typename decltype(r)::type;
    return p.schedule.ranks == 2 ? direct_kernel<Reduced, 2>
                                 : direct_kernel<Reduced, schedule::kMaxGpuRanks>;
  });
}

}  // namespace

cudaError_t enqueue_direct(const ExchangeParams& p, Start start, cudaStream_t stream) {
  const int ctas = p.schedule.workers / kDirectWarps;
  return launch_as(start, direct_kernel_of(p), ctas, 32 * kDirectWarps, stream, p);
}

cudaError_t load_direct() {
  return for_each_exchange([](const auto& p) {
    cudaFuncAttributes attributes{};
    return cudaFuncGetAttributes(&attributes, direct_kernel_of(exchange_of(p)));
  });
}

}  // namespace tilelace::cuda
