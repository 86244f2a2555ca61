// SPDX-License-Identifier: Apache-2.0
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/collectives/exchange_kernels.h"
#include "backend/cuda/device/early_launch.h"
#include "backend/cuda/device/publish.h"
#include "backend/cuda/device/unit_wait.h"

namespace tilelace::cuda {
namespace {

using schedule::ExchangeRound;
using schedule::Index;

/// A warp is a worker: none waits for another of its rank, and while one waits others send.
constexpr int kWarps = static_cast<int>(plan::kChunkWorkers);
/// Units of a lane whose loads are under way together; of sums, and of how many ranks.
constexpr int kUnits = 4, kSums = 1, kTerms = 2;

/// Verbs of run_exchange, for a warp: all its lanes call all of them. Of two ranks, or of up to
/// kMost, which take more registers.
template <class Params, class Reduced, int kMost>
class ChunkVerbs {
 public:
  TILELACE_DEVICE ChunkVerbs(const Params& p, std::uint32_t epoch)
      : all_(p), p_(exchange_of(p)), epoch_(epoch) {}

  TILELACE_DEVICE void send(ExchangeRound r) {
    sent_ = static_cast<std::uint32_t>(r.round);
    unpublished_ = true;
    if (failed_) return;
    const schedule::Exchange& s = p_.schedule;
    for (int i = 1; i < ranks(); ++i) {
      const int q = peer(i);
      const schedule::RowRange part = s.part(r, s.sends[q]);
      const Units from = Units(p_.sends[q]).from(part.begin);
      if (s.direct) {
        const Units to = Units({p_.direct[q], p_.sends[q].bytes}).from(part.begin);
        move(part, from, [&](int unit, const uint4& v) { to.store(unit, v); });
      } else if (kMost == 2 || !p_.same) {
        uint4* const to = place(q, s.term_place(q, s.rank, r));
        move(part, from, [&](int unit, const uint4& v) { to[unit] = v; });
      } else {
        return move(part, from, [&](int unit, const uint4& v) {
          for (int k = 1; k < ranks(); ++k)
            place(peer(k), s.term_place(peer(k), s.rank, r))[unit] = v;
        });
      }
    }
  }

  /// A lane each: the release of one would wait for the flag before it to reach its peer.
  TILELACE_DEVICE void signal(int to, Index word) {
    if (unpublished_) __syncwarp();
    unpublished_ = false;
    if (signals_++ % 32 == lane() && !failed_)
      comm::signal<comm::CudaAtomics>(words_of(to) + word, epoch_,
                                      word < p_.schedule.num_terms() ? sent_ : taken_);
  }

  TILELACE_DEVICE void admit() {
    __syncthreads();  // everybody has the number before it is counted
    if (threadIdx.x == blockDim.x - 1) count_exchange(p_.call, epoch_);
    admits_ = true;
    if (p_.schedule.direct) settle_waits(0);
  }

  TILELACE_DEVICE void wait(Index word) {
    if (waits_++ == lane()) awaited_ = word;
  }

  TILELACE_DEVICE void take(ExchangeRound r) {
    taken_ = static_cast<std::uint32_t>(r.round);
    settle_waits(taken_);
    unpublished_ = true;
    if (failed_) return;
    const schedule::Exchange& s = p_.schedule;
    if (s.sums) return reduce(r);
    if (p_.sends[s.rank].data != p_.takes[s.rank].data) {
      const schedule::RowRange part = s.part(r, s.sends[s.rank]);
      move(part, Units(p_.sends[s.rank]).from(part.begin),
           [to = Units(p_.takes[s.rank]).from(part.begin)](int unit, const uint4& v) {
             to.store(unit, v);
           });
    }
    for (int i = 1; i < ranks() && !s.direct; ++i) {
      const int q = peer(i);
      hand(s.part(r, s.takes[q]), place(s.rank, s.term_place(s.rank, q, r)), q);
    }
  }

  TILELACE_DEVICE void deliver(ExchangeRound r) {
    settle_waits(static_cast<std::uint32_t>(r.round));
    if (failed_) return;
    const schedule::Exchange& s = p_.schedule;
    for (int i = 1; i < ranks(); ++i) {
      const int q = peer(i);
      hand(s.part(r, s.owned[q]), place(s.rank, s.sum_place(s.rank, q, r)), q);
    }
  }

  /// Behind the last verb: where nothing was awaited the peers still were not.
  TILELACE_DEVICE void end() { settle_waits(0); }

 private:
  TILELACE_DEVICE static int lane() { return static_cast<int>(threadIdx.x) & 31; }
  TILELACE_DEVICE int ranks() const { return kMost == 2 ? 2 : p_.schedule.ranks; }
  TILELACE_DEVICE int peer(int i) const {
    return kMost == 2 ? 1 - p_.schedule.rank : (p_.schedule.rank + i) % p_.schedule.ranks;
  }
  /// Of a rank, whose units begin there.
  TILELACE_DEVICE uint4* place(int rank, Index units) const {
    return reinterpret_cast<uint4*>(p_.call.memory_at(rank) + p_.places) + units;
  }
  /// store(unit, value) of each unit of a part, which begins `from` with; kUnits loads of each lane
  /// are under way.
  template <class Store>
  TILELACE_DEVICE static void move(schedule::RowRange part, const Units& from, const Store& store) {
    const auto units = static_cast<int>(part.size());
    for (int at = lane(); at < units; at += kUnits * 32) {
      uint4 v[kUnits];
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        if (at + u * 32 < units) v[u] = from.load(at + u * 32);
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        if (at + u * 32 < units) store(at + u * 32, v[u]);
    }
  }

  /// What came from a rank, from its place to the caller.
  TILELACE_DEVICE void hand(schedule::RowRange part, const uint4* from, int rank) const {
    const Units to = Units(p_.takes[rank]).from(part.begin);
    const auto units = static_cast<int>(part.size());
    for (int at = lane(); at < units; at += kUnits * 32) {
      uint4 v[kUnits];
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        if (at + u * 32 < units) v[u] = __ldcg(from + at + u * 32);
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        if (at + u * 32 < units) to.store(at + u * 32, v[u]);
    }
  }

  /// The terms of up to kTerms ranks of kSums units from `at` on, in rank order.
  TILELACE_DEVICE void add(Reduced (&sum)[kSums], int from_rank, int at, int units,
                           const Units& own, ExchangeRound r) const {
    const schedule::Exchange& s = p_.schedule;
    uint4 v[kTerms][kSums];
#pragma unroll
    for (int t = 0; t < kTerms; ++t) {
      const int q = from_rank + t;
      if (q >= ranks()) continue;
      const uint4* const from =
          q == s.rank ? nullptr : place(s.rank, s.term_place(s.rank, q, r)) + at;
#pragma unroll
      for (int u = 0; u < kSums; ++u)
        if (at + u * 32 < units)
          v[t][u] = q == s.rank ? own.load(at + u * 32) : __ldcg(from + u * 32);
    }
#pragma unroll
    for (int t = 0; t < kTerms; ++t)
#pragma unroll
      for (int u = 0; u < kSums; ++u)
        if (from_rank + t < ranks()) sum[u].add(v[t][u]);
  }

  TILELACE_DEVICE void reduce(ExchangeRound r) {
    const schedule::Exchange& s = p_.schedule;
    const schedule::RowRange part = s.part(r, s.takes[s.rank]);
    const Units out = Units(p_.takes[s.rank]).from(part.begin);
    const Units own = Units(p_.sends[s.rank]).from(part.begin);
    const auto units = static_cast<int>(part.size());
    for (int at = lane(); at < units; at += kSums * 32) {
      Reduced sum[kSums];
      for (int q = 0; q < ranks(); q += kTerms) add(sum, q, at, units, own, r);
#pragma unroll
      for (int u = 0; u < kSums; ++u) {
        const int unit = at + u * 32;
        if (unit >= units) continue;
        const uint4 done = finished(all_, sum[u], part.begin + unit);
        for (int i = 1; i < ranks() && s.shares; ++i)
          place(peer(i), s.sum_place(peer(i), s.rank, r))[unit] = done;
        out.store(unit, done);
      }
    }
  }

  /// Words of this round, a lane each, and beside the first of them the peers' headers, from lane
  /// kMaxGpuRanks on: one load looks at all. A word stays as it is until this rank has taken what
  /// its place holds: it is of this call and round, and of no later one.
  TILELACE_DEVICE void settle_waits(std::uint32_t round) {
    if (waits_ == 0 && !admits_) return;
    const int from = lane() - schedule::kMaxGpuRanks;
    const bool hears = admits_ && from >= 0 && from < ranks() && from != p_.schedule.rank;
    bool here = failed_ || !(hears || awaited_ >= 0), good = !failed_;
    UnitWait wait(p_.call.wait, epoch_);
    while (__all_sync(~0U, here ? 1 : 0) == 0) {
      if (!here) here = look(hears, from, round, good);
      if (!here && !wait.again(place_of(hears, from))) here = true, good = false;
    }
    waits_ = 0;
    awaited_ = -1;
    admits_ = false;
    failed_ = __all_sync(~0U, good ? 1 : 0) == 0;
    __syncwarp();  // what one lane saw is there for all: a vote does not promise it
  }

  /// Whether what this lane waits for is here; `good`: and as it should be.
  TILELACE_DEVICE bool look(bool hears, int from, std::uint32_t round, bool& good) const {
    const comm::Header* const word =
        hears ? header_of(p_, from, epoch_) : words_of(p_.schedule.rank) + awaited_;
    const comm::Header seen = comm::CudaAtomics::load_acquire(word);
    if (!hears) return seen == comm::make_header(epoch_, round);
    if (!comm::epoch_reached(comm::header_epoch(seen), epoch_)) return false;
    good = agrees_with<true>(p_, from, epoch_, seen);
    return true;
  }
  TILELACE_DEVICE WaitPlace place_of(bool hears, int from) const {
    if (hears) return {Role::store, 0, -1, from, kHeaderFlag};
    const auto of = static_cast<int>(awaited_ / (p_.schedule.ring * p_.schedule.workers));
    return {Role::reduce, static_cast<int>(blockIdx.x), -1, of % ranks(),
            static_cast<std::uint32_t>(awaited_)};
  }
  TILELACE_DEVICE comm::Header* words_of(int rank) const {
    return reinterpret_cast<comm::Header*>(p_.call.flags_at(rank));
  }

  const Params& all_;
  const ExchangeParams& p_;
  std::uint32_t epoch_;
  int signals_ = 0, waits_ = 0;
  std::uint32_t sent_ = 0, taken_ = 0;  ///< rounds
  Index awaited_ = -1;                  ///< the word that this lane waits for
  bool unpublished_ = false, admits_ = false, failed_ = false;
};

template <class Params, class Reduced, int kMost>
__global__ void __launch_bounds__(32 * kWarps, kMost == 2 ? plan::kCtasOfTwo : plan::kCtas)
    chunks_kernel(const __grid_constant__ Params all) {
  const ExchangeParams& p = exchange_of(all);
  begin_exchange(all, p);
  const std::uint32_t epoch = call_number(p.call);
  if (blockIdx.x == 0 && threadIdx.x < 32) tell_peers<true>(p, epoch);
  ChunkVerbs<Params, Reduced, kMost> verbs(all, epoch);
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
  schedule::run_exchange(p.schedule, static_cast<int>(blockIdx.x) * kWarps + warp, verbs);
  verbs.end();
}

template <class Params>
using Kernel = void (*)(Params);

template <class Params>
Kernel<Params> kernel_of(const Params& p) {
  return with_reduction(p, [&](auto r) -> Kernel<Params> {
    using Reduced = typename decltype(r)::type;
    return exchange_of(p).schedule.ranks == 2
               ? chunks_kernel<Params, Reduced, 2>
               : chunks_kernel<Params, Reduced, schedule::kMaxGpuRanks>;
  });
}

template <class Params>
cudaError_t launch(const Params& p, Start start, cudaStream_t stream) {
  const int ctas = exchange_of(p).schedule.workers / kWarps;
  return launch_as(start, kernel_of(p), ctas, 32 * kWarps, stream, p);
}

}  // namespace

cudaError_t enqueue_chunks(const ExchangeParams& p, Start start, cudaStream_t stream) {
  return launch(p, start, stream);
}
cudaError_t enqueue_chunks(const ProductSum& p, Start start, cudaStream_t stream) {
  return launch(p, start, stream);
}

cudaError_t load_chunks() {
  return for_each_exchange([](const auto& p) {
    cudaFuncAttributes attributes{};
    return cudaFuncGetAttributes(&attributes, kernel_of(p));
  });
}

}  // namespace tilelace::cuda
