// SPDX-License-Identifier: Apache-2.0
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/collectives/norm.h"
#include "backend/cuda/device/early_launch.h"
#include "backend/cuda/device/parcels.h"
#include "backend/cuda/device/publish.h"
#include "backend/cuda/device/row_norm.h"
#include "backend/cuda/device/unit_wait.h"

namespace tilelace::cuda {
namespace {

using schedule::ExchangeRound;
using schedule::Index;

/// Verbs of run_exchange, for a CTA: all its threads call all of them. Of two ranks, or of up to
/// kMost, whose terms take more registers.
template <class Element, int kMost, int kUnits>
class NormChunkVerbs {
 public:
  TILELACE_DEVICE NormChunkVerbs(const NormParams& p, std::uint32_t epoch, float* shared,
                                 uint4* kept)
      : p_(p), e_(p.exchange), norm_(p, shared, kept, static_cast<int>(blockDim.x)), epoch_(epoch) {
    norm_.load_weight();
  }

  TILELACE_DEVICE void send(ExchangeRound r) {
    unpublished_ = true;
    if (failed_) return;
    const Part part = part_of(r);
    for (int row = 0; row < part.rows; ++row) {
      uint4 v[kUnits];
#pragma unroll
      for (int k = 0; k < kUnits; ++k)
        if (norm_.has(k)) v[k] = own(part.first + row, k);
      for (int i = 1; i < ranks(); ++i) {
        uint4* const to = place(peer(i), e_.schedule.term_place(peer(i), e_.schedule.rank, r));
#pragma unroll
        for (int k = 0; k < kUnits; ++k)
          if (norm_.has(k)) to[at(row, k)] = v[k];
      }
    }
  }

  /// A thread each: the release of one would wait for the flag before it to reach its peer.
  TILELACE_DEVICE void signal(int peer, Index flag) {
    if (unpublished_) __syncthreads();
    unpublished_ = false;
    if (signals_++ % 32 == thread() && !failed_)
      cuda::signal(e_.call.flags_at(peer) + flag, epoch_);
  }

  TILELACE_DEVICE void admit() {
    __syncthreads();  // everybody has the number before it is counted
    if (threadIdx.x == blockDim.x - 1) count_call(e_.call, epoch_);
    admits_ = true;
  }

  TILELACE_DEVICE void wait(Index flag) {
    if (waits_++ == thread()) awaited_ = flag;
  }
  TILELACE_DEVICE void deliver(ExchangeRound /*r*/) {}

  TILELACE_DEVICE void take(ExchangeRound r) {
    const Part part = part_of(r);
    if (part.rows > 0) norm_.load_residual(part.first);
    settle_waits();
    unpublished_ = true;
    if (failed_) return;
    for (int row = 0; row < part.rows; ++row) {
      if (row > 0) norm_.load_residual(part.first + row);
#pragma unroll(kUnits < 4 ? kUnits : 1)
      for (int k = 0; k < kUnits; ++k)
        if (norm_.has(k)) add_terms(r, part.first, row, k);
      norm_.put_squares();
      __syncthreads();
      norm_.finish(part.first + row);
    }
  }

  /// Behind the last verb: where nothing was awaited the peers still were not.
  TILELACE_DEVICE void end() { settle_waits(); }

 private:
  struct Part {
    Index first = 0;
    int rows = 0;
  };
  TILELACE_DEVICE Part part_of(ExchangeRound r) const {
    const schedule::RowRange units = e_.schedule.part(r, e_.schedule.sends[e_.schedule.rank]);
    return {units.begin / p_.row_places, static_cast<int>(units.size() / p_.row_places)};
  }
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
    return Index{row} * p_.row_places + norm_.unit(k);
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

  /// Flags, a thread each, and beside them the peers' headers, from thread kMaxGpuRanks on.
  TILELACE_DEVICE void settle_waits() {
    if (waits_ == 0 && !admits_) return;
    const int peer = thread() - schedule::kMaxGpuRanks;
    const bool hears = admits_ && peer >= 0 && peer < ranks() && peer != e_.schedule.rank;
    bool here = failed_ || !(hears || awaited_ >= 0), good = !failed_;
    UnitWait wait(e_.call.wait, epoch_);
    while (!here) {
      here = look(hears, peer, good);
      if (!here && !wait.again(place_of(hears, peer))) here = true, good = false;
    }
    waits_ = 0;
    awaited_ = -1;
    admits_ = false;
    failed_ = __syncthreads_and(good ? 1 : 0) == 0;
  }
  /// Whether what this thread waits for is here; `good`: and as it should be.
  TILELACE_DEVICE bool look(bool hears, int peer, bool& good) const {
    const comm::Header* const header = hears ? header_of(e_, peer, epoch_) : nullptr;
    // Of a header the half that has the number.
    const comm::Flag* const word = hears ? reinterpret_cast<const comm::Flag*>(header) + 1
                                         : e_.call.flags_at(e_.call.rank) + awaited_;
    const comm::Flag seen = comm::CudaAtomics::load_acquire(word);
    if (!hears) return seen == epoch_;
    if (!comm::epoch_reached(seen, epoch_)) return false;
    // stays: nothing but the header is read by it
    good = agrees_with(e_, peer, epoch_, comm::CudaAtomics::load_acquire(header));
    return true;
  }
  TILELACE_DEVICE WaitPlace place_of(bool hears, int peer) const {
    if (hears) return {Role::store, 0, -1, peer, kHeaderFlag};
    const auto of =
        static_cast<int>(awaited_ / (schedule::kMaxExchangeRounds * Index{e_.schedule.workers}));
    return {Role::reduce, static_cast<int>(blockIdx.x), -1, of % e_.schedule.ranks,
            static_cast<std::uint32_t>(awaited_)};
  }

  const NormParams& p_;
  const ExchangeParams& e_;
  RowNorm<Element, kUnits> norm_;
  std::uint32_t epoch_;
  int signals_ = 0, waits_ = 0;
  Index awaited_ = -1;  ///< the flag that this thread waits for
  bool unpublished_ = false, admits_ = false, failed_ = false;
};

template <class Element, int kMost, int kUnits>
__global__ void __launch_bounds__(static_cast<int>(plan::kNormThreads), 1)
    norm_chunks_kernel(const __grid_constant__ NormParams p) {
  __shared__ float shared[kNormShared];
  __shared__ uint4 kept[kNormKept<kUnits>];
  begin_exchange(p.exchange);
  const std::uint32_t epoch = call_number(p.exchange.call);
  if (blockIdx.x == 0 && threadIdx.x < 32) tell_peers(p.exchange, epoch);
  NormChunkVerbs<Element, kMost, kUnits> verbs(p, epoch, shared, kept);
  schedule::run_exchange(p.exchange.schedule, static_cast<int>(blockIdx.x), verbs);
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
  return launch_as(start, norm_chunks_of(p), p.exchange.schedule.workers, norm_threads(p), stream,
                   p);
}

cudaError_t load_norm_chunks() {
  return for_each_norm([](const NormParams& p) {
    cudaFuncAttributes attributes{};
    return cudaFuncGetAttributes(&attributes, norm_chunks_of(p));
  });
}

}  // namespace tilelace::cuda
