// SPDX-License-Identifier: Apache-2.0
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/collectives/norm.h"
#include "backend/cuda/device/lines.h"
#include "backend/cuda/device/parcels.h"
#include "backend/cuda/device/row_norm.h"
#include "backend/cuda/device/unit_wait.h"

namespace tilelace::cuda {
namespace {

using schedule::ExchangeRound;
using schedule::Index;

/// Threads of the last warp, which waits for headers: between two ranks beside those that have
/// units; of more, whose registers are scarce, it has units, too.
constexpr int kNormWatching = 32;
TILELACE_HD constexpr int beside_units(int most_ranks) {
  return most_ranks == 2 ? kNormWatching : 0;
}

/// Verbs of run_staged_exchange, for a CTA: all its threads call all of them. Of two ranks, or of
/// up to kMost, whose terms take more registers.
template <class Element, int kMost, int kUnits>
class NormLineVerbs {
  /// Units, and ranks, whose terms are awaited together.
  static constexpr int kTogether = kMost == 2 && kUnits < 4 ? kUnits : 1;
  static constexpr int kTerms = kUnits == 1 ? 3 : 2;

 public:
  TILELACE_DEVICE NormLineVerbs(const NormParams& p, std::uint32_t epoch, NormShared& shared,
                                uint4* kept)
      : p_(p), e_(p.exchange), norm_(p, shared, kept, movers()), epoch_(epoch) {}

  TILELACE_DEVICE void send(ExchangeRound r) {
    const schedule::RowRange part = rows_of(p_, r);
    first_ = part.begin;
    rows_ = static_cast<int>(part.size());
    for (int row = 0; row < rows_; ++row) {
      uint4 v[kUnits];
#pragma unroll
      for (int k = 0; k < kUnits; ++k)
        if (norm_.has(k)) v[k] = own(row, k);
      if (row == 0) {
        norm_.load_weight();
        norm_.load_residual(first_);
      }
#pragma unroll 1
      for (int i = 1; i < ranks(); ++i) {
        Line* const to = place(peer(i), e_.schedule.term_place(peer(i), e_.schedule.rank, r));
#pragma unroll
        for (int k = 0; k < kUnits; ++k)
          if (norm_.has(k)) put_unit(to, at(row, k), v[k], epoch_);
      }
    }
  }

  TILELACE_DEVICE void admit() {
    __syncthreads();  // everybody has the number before it is counted
    if (threadIdx.x < blockDim.x - kNormWatching) return;
    if ((threadIdx.x & 31) == 0) count_exchange(e_.call, epoch_);
    good_ = hear_peers(e_, epoch_);
  }

  TILELACE_DEVICE void signal(int /*peer*/, Index /*flag*/) {}
  TILELACE_DEVICE void wait(Index /*flag*/) {}
  TILELACE_DEVICE void deliver(ExchangeRound /*r*/) {}

  TILELACE_DEVICE void take(ExchangeRound r) {
    for (int row = 0; row < rows_; ++row) {
      if (row > 0) norm_.load_residual(first_ + row);
      norm_.settle();
#pragma unroll 1
      for (int k = 0; k < kUnits; k += kTogether)
        if constexpr (kMost == 2)
          good_ = good_ && add_pair(r, row, k);
        else
          good_ = good_ && add_terms(r, row, k);
      good_ = norm_.share_squares(good_);  // peers' headers are here, too
      if (!good_) return;
      norm_.finish(first_ + row);
    }
  }

 private:
  TILELACE_DEVICE static int movers() { return static_cast<int>(blockDim.x) - beside_units(kMost); }
  TILELACE_DEVICE int ranks() const { return kMost == 2 ? 2 : e_.schedule.ranks; }
  TILELACE_DEVICE int peer(int i) const {
    return kMost == 2 ? 1 - e_.schedule.rank : (e_.schedule.rank + i) % e_.schedule.ranks;
  }
  TILELACE_DEVICE Line* place(int rank, Index units) const {
    return reinterpret_cast<Line*>(e_.call.memory_at(rank) + e_.places) + units * kLinesOfUnit;
  }
  /// Of this CTA's part.
  TILELACE_DEVICE int at(int row, int k) const { return row * p_.part_places + norm_.place(k); }
  TILELACE_DEVICE uint4 own(int row, int k) const {
    return __ldcg(p_.x + (first_ + row) * p_.row_units + norm_.unit(k));
  }

  /// Of two ranks: the own units and the peer's, whose numbers must not index registers.
  TILELACE_DEVICE bool add_pair(ExchangeRound r, int row, int from) {
    uint4 mine[kTogether], theirs[kTogether];
    const int q = peer(1);
    bool here[kTogether], all = true;
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
      here[u] = !norm_.has(from + u) || look(r, row, from + u, q, theirs[u]);
      all = all && here[u];
      if (norm_.has(from + u)) mine[u] = own(row, from + u);
    }
    UnitWait wait(e_.call.wait, epoch_);
    while (!all) {
      all = true;
#pragma unroll
      for (int u = 0; u < kTogether; ++u) {
        if (!here[u]) here[u] = look(r, row, from + u, q, theirs[u]);
        all = all && here[u];
      }
      const WaitPlace place{Role::reduce, static_cast<int>(blockIdx.x), -1, q,
                            static_cast<std::uint32_t>(at(row, from))};
      if (!all && !wait.again(place)) return false;
    }
    const bool first = e_.schedule.rank == 0;
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
      if (!norm_.has(from + u)) continue;
      FloatReduction<Element, false> sum;
      sum.add(either(first, mine[u], theirs[u]));
      sum.add(either(first, theirs[u], mine[u]));
      norm_.take_sum(from + u, sum.done(1.0F));
    }
    return true;
  }

  /// Every rank's units from k on.
  TILELACE_DEVICE bool add_terms(ExchangeRound r, int row, int from) {
    FloatReduction<Element, false> sum[kTogether];
#pragma unroll 1
    for (int q = 0; q < ranks(); q += kTerms) {
      uint4 v[kTogether][kTerms];
      if (!await_terms(r, row, from, q, v)) return false;
#pragma unroll
      for (int u = 0; u < kTogether; ++u)
#pragma unroll
        for (int t = 0; t < kTerms; ++t)
          if (q + t < ranks()) sum[u].add(v[u][t]);
    }
#pragma unroll
    for (int u = 0; u < kTogether; ++u)
      if (norm_.has(from + u)) norm_.take_sum(from + u, sum[u].done(1.0F));
    return true;
  }

  /// Those of some ranks; the first looks go out together.
  TILELACE_DEVICE bool await_terms(ExchangeRound r, int row, int from, int from_rank,
                                   uint4 (&v)[kTogether][kTerms]) {
    unsigned missing = 0;
#pragma unroll
    for (int u = 0; u < kTogether; ++u)
#pragma unroll
      for (int t = 0; t < kTerms; ++t) {
        const int q = from_rank + t;
        if (q >= ranks() || !norm_.has(from + u)) continue;
        if (q == e_.schedule.rank)
          v[u][t] = own(row, from + u);
        else if (!look(r, row, from + u, q, v[u][t]))
          missing |= 1U << (u * kTerms + t);
      }
    UnitWait wait(e_.call.wait, epoch_);
    while (missing != 0) {
#pragma unroll
      for (int u = 0; u < kTogether; ++u)
#pragma unroll
        for (int t = 0; t < kTerms; ++t)
          if ((missing >> (u * kTerms + t) & 1U) != 0 &&
              look(r, row, from + u, from_rank + t, v[u][t]))
            missing &= ~(1U << (u * kTerms + t));
      if (missing == 0) break;
      int first = 0;
      while ((missing >> first & 1U) == 0) ++first;
      const WaitPlace place{Role::reduce, static_cast<int>(blockIdx.x), -1,
                            from_rank + first % kTerms,
                            static_cast<std::uint32_t>(at(row, from + first / kTerms))};
      if (!wait.again(place)) return false;
    }
    return true;
  }
  TILELACE_DEVICE bool look(ExchangeRound r, int row, int k, int rank, uint4& v) const {
    const schedule::Exchange& s = e_.schedule;
    return look_at_unit(place(s.rank, s.term_place(s.rank, rank, r)), at(row, k), epoch_, v);
  }

  const NormParams& p_;
  const ExchangeParams& e_;
  RowNorm<Element, kUnits> norm_;
  std::uint32_t epoch_;
  Index first_ = 0;  ///< row of this CTA's
  int rows_ = 0;
  bool good_ = true;
};

template <class Element, int kMost, int kUnits>
__global__ void __launch_bounds__(static_cast<int>(plan::kNormThreads) + beside_units(kMost), 1)
    norm_lines_kernel(const __grid_constant__ NormParams p) {
  __shared__ NormShared shared;
  __shared__ uint4 kept[kNormKept<kUnits>];
  RowNorm<Element, kUnits>::begin(p, shared, static_cast<int>(blockDim.x) - beside_units(kMost));
  begin_exchange(p, p.exchange);
  const std::uint32_t epoch = call_number(p.exchange.call);
  if (blockIdx.x == 0 && threadIdx.x >= blockDim.x - kNormWatching) tell_peers(p.exchange, epoch);
  NormLineVerbs<Element, kMost, kUnits> verbs(p, epoch, shared, kept);
  schedule::run_staged_exchange(p.exchange.schedule, static_cast<int>(blockIdx.x), verbs);
}

using NormLinesKernel = void (*)(NormParams);

NormLinesKernel norm_lines_of(const NormParams& p) {
  return with_norm(p, [&](auto n) -> NormLinesKernel {
    using Element = typename decltype(n)::Element;
    constexpr int kUnits = decltype(n)::kUnits;
    return p.exchange.schedule.ranks == 2
               ? norm_lines_kernel<Element, 2, kUnits>
               : norm_lines_kernel<Element, schedule::kMaxGpuRanks, kUnits>;
  });
}

}  // namespace

cudaError_t enqueue_norm_lines(const NormParams& p, Start start, cudaStream_t stream) {
  return launch_norm(start, norm_lines_of(p),
                     norm_threads(p) + beside_units(p.exchange.schedule.ranks), stream, p);
}

cudaError_t load_norm_lines() {
  return for_each_norm([](const NormParams& p) {
    cudaFuncAttributes attributes{};
    return cudaFuncGetAttributes(&attributes, norm_lines_of(p));
  });
}

}  // namespace tilelace::cuda
