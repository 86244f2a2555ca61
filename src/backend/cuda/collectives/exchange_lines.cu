// SPDX-License-Identifier: Apache-2.0
#define TILELACE_DEVICE_LOOPS
#include <algorithm>

#include "backend/cuda/collectives/exchange_kernels.h"
#include "backend/cuda/device/early_launch.h"
#include "backend/cuda/device/lines.h"
#include "backend/cuda/device/unit_wait.h"

namespace tilelace::cuda {
namespace {

using schedule::ExchangeRound;
using schedule::Index;

/// Threads that move data, at most, and beside them a warp that waits for headers and one that
/// counts.
constexpr int kThreads = static_cast<int>(plan::kLineThreads), kWatching = 64;
/// Units of a thread whose loads are under way together.
constexpr int kUnits = 2;

/// Verbs of run_staged_exchange, for a CTA: all its threads call all of them. The last warps wait
/// for peers' headers and count, the others have a unit of the CTA's part in turn. Of two ranks, or
/// of up to kMost, whose terms take more registers.
template <class Params, class Reduced, int kMost>
class LineVerbs {
 public:
  TILELACE_DEVICE LineVerbs(const Params& p, std::uint32_t epoch)
      : all_(p), p_(exchange_of(p)), epoch_(epoch) {}

  TILELACE_DEVICE void send(ExchangeRound r) {
    const schedule::Exchange& s = p_.schedule;
    for (Index i = watches() ? s.chunk : thread(); i < s.chunk; i += kUnits * movers()) {
      uint4 v[kUnits];
      for (int step = 1; step < ranks(); ++step) {
        const int q = peer(step);
        const auto wanted = [&](int u) {
          const Index at = i + u * movers();
          return at < s.chunk && begin(r) + at < s.sends[q];
        };
#pragma unroll
        for (int u = 0; u < kUnits; ++u)
          if (wanted(u) && (step == 1 || !p_.same))
            v[u] = Units(p_.sends[q]).load(begin(r) + i + u * movers());
#pragma unroll
        for (int u = 0; u < kUnits; ++u)
          if (wanted(u))
            put_unit(place(q, s.term_place(q, s.rank, r)), i + u * movers(), v[u], epoch_);
      }
    }
  }

  TILELACE_DEVICE void admit() {
    __syncthreads();  // everybody has the number before it is counted
    if (!watches()) return;
    if (thread() >= movers() + 32) {
      if ((thread() & 31) == 0) count_exchange(p_.call, epoch_);
    } else {
      good_ = hear_peers<true>(p_, epoch_);
    }
  }

  TILELACE_DEVICE void signal(int /*peer*/, Index /*flag*/) {}
  TILELACE_DEVICE void wait(Index /*flag*/) {}

  TILELACE_DEVICE void take(ExchangeRound r) {
    uint4 units[kMost];
    const Index first = watches() ? p_.schedule.chunk : thread();
    bool there = first < p_.schedule.chunk && await_terms(r, first, units);
    settle(there || first >= p_.schedule.chunk);
    for (Index i = first; i < p_.schedule.chunk && good_;) {
      if (there) finish(r, i, units);
      i += movers();
      there = i < p_.schedule.chunk && await_terms(r, i, units);
      good_ = good_ && (there || i >= p_.schedule.chunk);
    }
  }

  TILELACE_DEVICE void deliver(ExchangeRound r) {
    const schedule::Exchange& s = p_.schedule;
    for (Index i = watches() ? s.chunk : thread(); i < s.chunk && good_; i += movers())
      for (int step = 1; step < ranks() && good_; ++step) {
        const int q = peer(step);
        const Index unit = begin(r) + i;
        if (unit >= s.owned[q]) continue;
        uint4 v;
        good_ = await(place(s.rank, s.sum_place(s.rank, q, r)), i, q, v);
        if (good_) Units(p_.takes[q]).store(unit, v);
      }
  }

 private:
  TILELACE_DEVICE static int thread() { return static_cast<int>(threadIdx.x); }
  TILELACE_DEVICE static int movers() { return static_cast<int>(blockDim.x) - kWatching; }
  TILELACE_DEVICE int ranks() const { return kMost == 2 ? 2 : p_.schedule.ranks; }
  TILELACE_DEVICE int peer(int i) const {
    return kMost == 2 ? 1 - p_.schedule.rank : (p_.schedule.rank + i) % p_.schedule.ranks;
  }
  TILELACE_DEVICE static bool watches() { return thread() >= movers(); }
  TILELACE_DEVICE Index begin(ExchangeRound r) const {
    return (r.round * p_.schedule.workers + r.worker) * p_.schedule.chunk;
  }
  /// Of a rank, whose units begin there.
  TILELACE_DEVICE Line* place(int rank, Index units) const {
    return reinterpret_cast<Line*>(p_.call.memory_at(rank) + p_.places) + units * kLinesOfUnit;
  }

  // stays: a vote of all threads on whether everything is here, which orders no data
  TILELACE_DEVICE void settle(bool here) { good_ = __syncthreads_and(good_ && here ? 1 : 0) != 0; }

  TILELACE_DEVICE bool await(const Line* at, Index i, int peer, uint4& v) {
    UnitWait wait(p_.call.wait, epoch_);
    const WaitPlace place{Role::reduce, static_cast<int>(blockIdx.x), -1, peer,
                          static_cast<std::uint32_t>(i)};
    while (!look_at_unit(at, i, epoch_, v))
      if (!wait.again(place)) return false;
    return true;
  }

  /// Of two ranks: the own unit, then the peer's, whose numbers must not index registers.
  TILELACE_DEVICE bool await_pair(ExchangeRound r, Index i, uint4 (&units)[2]) {
    const schedule::Exchange& s = p_.schedule;
    const int q = peer(1);
    const Index unit = begin(r) + i;
    if (unit < s.takes[s.rank]) units[0] = Units(p_.sends[s.rank]).load(unit);
    return unit >= s.takes[q] || await(place(s.rank, s.term_place(s.rank, q, r)), i, q, units[1]);
  }
  TILELACE_DEVICE void finish_pair(ExchangeRound r, Index i, const uint4 (&units)[2]) {
    const schedule::Exchange& s = p_.schedule;
    const int q = peer(1);
    const Index unit = begin(r) + i;
    if (!s.sums) {
      if (unit < s.takes[s.rank] && moves_own()) Units(p_.takes[s.rank]).store(unit, units[0]);
      if (unit < s.takes[q]) Units(p_.takes[q]).store(unit, units[1]);
      return;
    }
    if (unit >= s.takes[s.rank]) return;
    const bool first = s.rank == 0;
    Reduced sum;
    sum.add(either(first, units[0], units[1]));
    sum.add(either(first, units[1], units[0]));
    give(r, i, finished(all_, sum, unit));
  }
  /// A sum, to the caller, and where sums are shared to the peers.
  TILELACE_DEVICE void give(ExchangeRound r, Index i, const uint4& done) {
    const schedule::Exchange& s = p_.schedule;
    for (int step = 1; step < ranks() && s.shares; ++step) {
      const int q = peer(step);
      put_unit(place(q, s.sum_place(q, s.rank, r)), i, done, epoch_);
    }
    Units(p_.takes[s.rank]).store(begin(r) + i, done);
  }

  /// Every rank's unit i of this CTA's part. All looks of a poll are under way together, so those
  /// that have no unit to find look at a peer's, too.
  TILELACE_DEVICE bool await_terms(ExchangeRound r, Index i, uint4 (&units)[kMost]) {
    if constexpr (kMost == 2) return await_pair(r, i, units);
    const schedule::Exchange& s = p_.schedule;
    const Index unit = begin(r) + i;
    const Line* at[kMost];
    unsigned wanted = 0;
#pragma unroll
    for (int q = 0; q < kMost; ++q) {
      const bool comes = q < ranks() && q != s.rank;
      const int from = comes ? q : peer(1);
      at[q] = place(s.rank, s.term_place(s.rank, from, r));
      if (comes && unit < s.takes[q]) wanted |= 1U << q;
    }
    uint4 own{};
    if (unit < s.takes[s.rank]) own = Units(p_.sends[s.rank]).load(unit);
    UnitWait wait(p_.call.wait, epoch_);
    while (wanted != 0) {
      unsigned missing = 0;
#pragma unroll
      for (int q = 0; q < kMost; ++q)
        missing |= look_at_unit(at[q], i, epoch_, units[q]) ? 0U : 1U << q;
      missing &= wanted;
      if (missing == 0) break;
      const WaitPlace place{Role::reduce, static_cast<int>(blockIdx.x), -1, __ffs(missing) - 1,
                            static_cast<std::uint32_t>(i)};
      if (!wait.again(place)) return false;
    }
#pragma unroll
    for (int q = 0; q < kMost; ++q) units[q] = either(q == s.rank, own, units[q]);
    return true;
  }

  /// To the caller, and where sums are shared to the peers.
  TILELACE_DEVICE void finish(ExchangeRound r, Index i, const uint4 (&units)[kMost]) {
    if constexpr (kMost == 2) return finish_pair(r, i, units);
    const schedule::Exchange& s = p_.schedule;
    const Index unit = begin(r) + i;
    if (!s.sums) {
#pragma unroll
      for (int q = 0; q < kMost; ++q)
        if (q < ranks() && unit < s.takes[q] && (q != s.rank || moves_own()))
          Units(p_.takes[q]).store(unit, units[q]);
      return;
    }
    if (unit >= s.takes[s.rank]) return;
    Reduced sum;
#pragma unroll
    for (int q = 0; q < kMost; ++q)
      if (q < ranks()) sum.add(units[q]);
    give(r, i, finished(all_, sum, unit));
  }
  TILELACE_DEVICE bool moves_own() const {
    return p_.sends[p_.call.rank].data != p_.takes[p_.call.rank].data;
  }

  const Params& all_;
  const ExchangeParams& p_;
  std::uint32_t epoch_;
  bool good_ = true;
};

template <class Params, class Reduced, int kMost>
__global__ void __launch_bounds__(kThreads + kWatching, kMost == 2 ? plan::kCtas : 1)
    lines_kernel(const __grid_constant__ Params all) {
  const ExchangeParams& p = exchange_of(all);
  begin_exchange(all, p);
  const std::uint32_t epoch = call_number(p.call);
  if (blockIdx.x == 0 && threadIdx.x >= blockDim.x - 32) tell_peers<true>(p, epoch);
  LineVerbs<Params, Reduced, kMost> verbs(all, epoch);
  schedule::run_staged_exchange(p.schedule, static_cast<int>(blockIdx.x), verbs);
}

template <class Params>
using Kernel = void (*)(Params);

template <class Params>
Kernel<Params> kernel_of(const Params& p) {
  return with_reduction(p, [&](auto r) -> Kernel<Params> {
    using Reduced = typename decltype(r)::type;
    const int ranks = exchange_of(p).schedule.ranks;
    return ranks == 2   ? lines_kernel<Params, Reduced, 2>
           : ranks <= 4 ? lines_kernel<Params, Reduced, 4>
                        : lines_kernel<Params, Reduced, schedule::kMaxGpuRanks>;
  });
}

template <class Params>
cudaError_t launch(const Params& p, Start start, cudaStream_t stream) {
  const schedule::Exchange& s = exchange_of(p).schedule;
  const auto threads =
      static_cast<int>(std::clamp<Index>(schedule::ceil_div(s.chunk, 32) * 32, 32, kThreads));
  return launch_as(start, kernel_of(p), s.workers, threads + kWatching, stream, p);
}

}  // namespace

cudaError_t enqueue_lines(const ExchangeParams& p, Start start, cudaStream_t stream) {
  return launch(p, start, stream);
}
cudaError_t enqueue_lines(const ProductSum& p, Start start, cudaStream_t stream) {
  return launch(p, start, stream);
}

cudaError_t load_lines() {
  return for_each_exchange([](const auto& p) {
    cudaFuncAttributes attributes{};
    return cudaFuncGetAttributes(&attributes, kernel_of(p));
  });
}

}  // namespace tilelace::cuda
