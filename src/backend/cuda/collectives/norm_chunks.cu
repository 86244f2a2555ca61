// SPDX-License-Identifier: Apache-2.0
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/collectives/norm.h"
#include "backend/cuda/device/lines.h"
#include "backend/cuda/device/parcels.h"
#include "backend/cuda/device/publish.h"
#include "backend/cuda/device/row_norm.h"
#include "backend/cuda/device/unit_wait.h"

namespace tilelace::cuda {
namespace {

using schedule::ExchangeRound;
using schedule::Index;

/// Verbs of run_staged_exchange, for a CTA: all its threads call all of them. Of two ranks, or of
/// up to kMost, whose terms take more registers.
template <class Element, int kMost, int kUnits>
class NormChunkVerbs {
 public:
  TILELACE_DEVICE NormChunkVerbs(const NormParams& p, std::uint32_t epoch, NormShared& shared,
                                 uint4* kept)
      : p_(p), e_(p.exchange), norm_(p, shared, kept, static_cast<int>(blockDim.x)), epoch_(epoch) {
    norm_.load_weight();
  }

  TILELACE_DEVICE void send(ExchangeRound r) {
    sent_ = static_cast<std::uint32_t>(r.round);
    unpublished_ = true;
    if (failed_) return;
    const schedule::RowRange part = rows_of(p_, r);
    for (int row = 0; row < part.size(); ++row) {
      uint4 v[kUnits];
#pragma unroll
      for (int k = 0; k < kUnits; ++k)
        if (norm_.has(k)) v[k] = own(part.begin + row, k);
      for (int i = 1; i < ranks(); ++i) {
        uint4* const to = place(peer(i), e_.schedule.term_place(peer(i), e_.schedule.rank, r));
#pragma unroll
        for (int k = 0; k < kUnits; ++k)
          if (norm_.has(k)) to[at(row, k)] = v[k];
      }
    }
  }

  /// A thread each: the release of one would wait for the flag before it to reach its peer.
  TILELACE_DEVICE void signal(int to, Index word) {
    if (unpublished_) __syncthreads();
    unpublished_ = false;
    if (signals_++ % 32 == thread() && !failed_)
      comm::signal<comm::CudaAtomics>(words_of(to) + word, epoch_, sent_);
  }

  TILELACE_DEVICE void admit() {
    __syncthreads();  // stays: no test misses it: all have read the number before it is counted
    if (threadIdx.x == blockDim.x - 1) count_exchange(e_.call, epoch_);
    admits_ = true;
  }

  TILELACE_DEVICE void wait(Index word) {
    if (waits_++ == thread()) awaited_ = word;
  }
  TILELACE_DEVICE void deliver(ExchangeRound /*r*/) {}

  TILELACE_DEVICE void take(ExchangeRound r) {
    const schedule::RowRange part = rows_of(p_, r);
    if (part.size() > 0) norm_.load_residual(part.begin);
    settle_waits(static_cast<std::uint32_t>(r.round));
    unpublished_ = true;
    if (failed_) return;
    for (int row = 0; row < part.size(); ++row) {
      if (row > 0) norm_.load_residual(part.begin + row);
      norm_.settle();
#pragma unroll(kUnits < 4 ? kUnits : 1)
      for (int k = 0; k < kUnits; ++k)
        if (!norm_.has(k))
          continue;
        else if constexpr (kMost == 2)
          add_pair(r, part.begin, row, k);
        else
          add_terms(r, part.begin, row, k);
      norm_.share_squares(true);
      norm_.finish(part.begin + row);
    }
  }

  /// Behind the last verb: where nothing was awaited the peers still were not.
  TILELACE_DEVICE void end() { settle_waits(0); }

 private:
  TILELACE_DEVICE static int thread() { return static_cast<int>(threadIdx.x); }
  TILELACE_DEVICE int ranks() const { return kMost == 2 ? 2 : e_.schedule.ranks; }
  TILELACE_DEVICE int peer(int i) const {
    return kMost == 2 ? 1 - e_.schedule.rank : (e_.schedule.rank + i) % e_.schedule.ranks;
  }
  TILELACE_DEVICE uint4* place(int rank, Index units) const {
    return reinterpret_cast<uint4*>(e_.call.memory_at(rank) + e_.places) + units;
  }
  /// Of this CTA's part.
  TILELACE_DEVICE Index at(int row, int k) const {
    return Index{row} * p_.part_places + norm_.place(k);
  }
  TILELACE_DEVICE uint4 own(Index row, int k) const {
    return __ldcg(p_.x + row * p_.row_units + norm_.unit(k));
  }

  TILELACE_DEVICE void add_terms(ExchangeRound r, Index first, int row, int k) {
    const schedule::Exchange& s = e_.schedule;
    uint4 v[kMost];
#pragma unroll
    for (int q = 0; q < kMost; ++q) {
      if (q >= ranks()) continue;
      if (q == s.rank)
        v[q] = own(first + row, k);
      else
        v[q] = __ldcg(place(s.rank, s.term_place(s.rank, q, r)) + at(row, k));
    }
    FloatReduction<Element, false> sum;
#pragma unroll
    for (int q = 0; q < kMost; ++q)
      if (q < ranks()) sum.add(v[q]);
    norm_.take_sum(k, sum.done(1.0F));
  }

  /// Of two ranks, whose numbers must not index registers.
  TILELACE_DEVICE void add_pair(ExchangeRound r, Index first, int row, int k) {
    const schedule::Exchange& s = e_.schedule;
    const uint4 mine = own(first + row, k);
    const uint4 theirs = __ldcg(place(s.rank, s.term_place(s.rank, peer(1), r)) + at(row, k));
    FloatReduction<Element, false> sum;
    sum.add(either(s.rank == 0, mine, theirs));
    sum.add(either(s.rank == 0, theirs, mine));
    norm_.take_sum(k, sum.done(1.0F));
  }

  /// Words of this round, a thread each, and beside them the peers' headers, from thread
  /// kMaxGpuRanks on.
  TILELACE_DEVICE void settle_waits(std::uint32_t round) {
    if (waits_ == 0 && !admits_) return;
    const int from = thread() - schedule::kMaxGpuRanks;
    const bool hears = admits_ && from >= 0 && from < ranks() && from != e_.schedule.rank;
    bool here = failed_ || !(hears || awaited_ >= 0), good = !failed_;
    UnitWait wait(e_.call.wait, epoch_);
    while (!here) {
      here = look(hears, from, round, good);
      if (!here && !wait.again(place_of(hears, from))) here = true, good = false;
    }
    waits_ = 0;
    awaited_ = -1;
    admits_ = false;
    failed_ = __syncthreads_and(good ? 1 : 0) == 0;
  }
  /// Whether what this thread waits for is here; `good`: and as it should be.
  TILELACE_DEVICE bool look(bool hears, int from, std::uint32_t round, bool& good) const {
    const comm::Header* const word =
        hears ? header_of(e_, from, epoch_) : words_of(e_.schedule.rank) + awaited_;
    const comm::Header seen = comm::CudaAtomics::load_acquire(word);
    if (!hears) return seen == comm::make_header(epoch_, round);
    if (!comm::epoch_reached(comm::header_epoch(seen), epoch_)) return false;
    good = agrees_with(e_, from, epoch_, seen);
    return true;
  }
  TILELACE_DEVICE WaitPlace place_of(bool hears, int from) const {
    if (hears) return {Role::store, 0, -1, from, kHeaderFlag};
    const auto of = static_cast<int>(awaited_ / (e_.schedule.ring * e_.schedule.workers));
    return {Role::reduce, static_cast<int>(blockIdx.x), -1, of % ranks(),
            static_cast<std::uint32_t>(awaited_)};
  }
  TILELACE_DEVICE comm::Header* words_of(int rank) const {
    return reinterpret_cast<comm::Header*>(e_.call.flags_at(rank));
  }

  const NormParams& p_;
  const ExchangeParams& e_;
  RowNorm<Element, kUnits> norm_;
  std::uint32_t epoch_;
  int signals_ = 0, waits_ = 0;
  std::uint32_t sent_ = 0;  ///< round
  Index awaited_ = -1;      ///< the word that this thread waits for
  bool unpublished_ = false, admits_ = false, failed_ = false;
};

template <class Element, int kMost, int kUnits>
__global__ void __launch_bounds__(static_cast<int>(plan::kNormThreads),
                                  kMost == 2 && kUnits <= plan::kNormUnitsOfTwo ? plan::kNormCtas
                                                                                : 1)
    norm_chunks_kernel(const __grid_constant__ NormParams p) {
  __shared__ NormShared shared;
  __shared__ uint4 kept[kNormKept<kUnits>];
  begin_exchange(p, p.exchange);
  const std::uint32_t epoch = call_number(p.exchange.call);
  if (blockIdx.x == 0 && threadIdx.x < 32) tell_peers(p.exchange, epoch);
  NormChunkVerbs<Element, kMost, kUnits> verbs(p, epoch, shared, kept);
  schedule::run_staged_exchange(p.exchange.schedule, static_cast<int>(blockIdx.x), verbs);
  verbs.end();
}

using NormChunksKernel = void (*)(NormParams);

NormChunksKernel norm_chunks_of(const NormParams& p) {
  return with_norm(p, [&](auto n) -> NormChunksKernel {
    using Element = typename decltype(n)::Element;
    constexpr int kUnits = decltype(n)::kUnits;
    return p.exchange.schedule.ranks == 2
               ? norm_chunks_kernel<Element, 2, kUnits>
               : norm_chunks_kernel<Element, schedule::kMaxGpuRanks, kUnits>;
  });
}

}  // namespace

cudaError_t enqueue_norm_chunks(const NormParams& p, Start start, cudaStream_t stream) {
  return launch_norm(start, norm_chunks_of(p), norm_threads(p), stream, p);
}

cudaError_t load_norm_chunks() {
  return for_each_norm([](const NormParams& p) {
    cudaFuncAttributes attributes{};
    return cudaFuncGetAttributes(&attributes, norm_chunks_of(p));
  });
}

}  // namespace tilelace::cuda
