// SPDX-License-Identifier: Apache-2.0
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/collectives/exchange_kernels.h"
#include "backend/cuda/device/early_launch.h"
#include "backend/cuda/device/warp_flags.h"

namespace tilelace::cuda {
namespace {

using schedule::ExchangeRound;
using schedule::Index;

/// A warp is a worker: none waits for another of its rank, and while one waits others send.
constexpr int kWarps = static_cast<int>(plan::kChunkWorkers);
/// Units of a lane whose loads are under way together; of sums, and of how many ranks.
constexpr int kUnits = 4, kSums = 1, kTerms = 2;

/// Verbs of run_staged_exchange, for a warp: all its lanes call all of them. Of two ranks, or of up
/// to kMost, which take more registers.
template <class Params, class Reduced, int kMost>
class ChunkVerbs {
 public:
  TILELACE_DEVICE ChunkVerbs(const Params& p, std::uint32_t epoch)
      : all_(p), p_(exchange_of(p)), flags_(p_, epoch) {}

  TILELACE_DEVICE void send(ExchangeRound r) {
    sent_ = static_cast<std::uint32_t>(r.round);
    flags_.flush();
    if (flags_.failed()) return;
    const schedule::Exchange& s = p_.schedule;
    for (int i = 1; i < ranks(); ++i) {
      const int q = peer(i);
      const schedule::RowRange part = s.part(r, s.sends[q]);
      const Units from = Units(p_.sends[q]).from(part.begin);
      if (kMost == 2 || !p_.same) {
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

  TILELACE_DEVICE void signal(int to, Index word) {
    flags_.signal(to, word, word < p_.schedule.num_terms() ? sent_ : taken_);
  }
  TILELACE_DEVICE void admit() { flags_.admit(); }
  TILELACE_DEVICE void wait(Index word) { flags_.wait(word); }

  TILELACE_DEVICE void take(ExchangeRound r) {
    taken_ = static_cast<std::uint32_t>(r.round);
    flags_.settle(taken_);
    if (flags_.failed()) return;
    const schedule::Exchange& s = p_.schedule;
    if (s.sums) return reduce(r);
    if (p_.sends[s.rank].data != p_.takes[s.rank].data) {
      const schedule::RowRange part = s.part(r, s.sends[s.rank]);
      move(part, Units(p_.sends[s.rank]).from(part.begin),
           [to = Units(p_.takes[s.rank]).from(part.begin)](int unit, const uint4& v) {
             to.store(unit, v);
           });
    }
    for (int i = 1; i < ranks(); ++i) {
      const int q = peer(i);
      hand(s.part(r, s.takes[q]), place(s.rank, s.term_place(s.rank, q, r)), q);
    }
  }

  TILELACE_DEVICE void deliver(ExchangeRound r) {
    flags_.settle(static_cast<std::uint32_t>(r.round));
    if (flags_.failed()) return;
    const schedule::Exchange& s = p_.schedule;
    for (int i = 1; i < ranks(); ++i) {
      const int q = peer(i);
      hand(s.part(r, s.owned[q]), place(s.rank, s.sum_place(s.rank, q, r)), q);
    }
  }

  /// Behind the last verb: where nothing was awaited the peers still were not.
  TILELACE_DEVICE void end() { flags_.settle(0); }

 private:
  TILELACE_DEVICE int ranks() const { return kMost == 2 ? 2 : p_.schedule.ranks; }
  TILELACE_DEVICE int peer(int i) const {
    return kMost == 2 ? 1 - p_.schedule.rank : (p_.schedule.rank + i) % p_.schedule.ranks;
  }
  /// Of a rank, whose units begin there.
  TILELACE_DEVICE uint4* place(int rank, Index units) const {
    return reinterpret_cast<uint4*>(p_.call.memory_at(rank) + p_.places) + units;
  }
  template <class Store>
  TILELACE_DEVICE static void move(schedule::RowRange part, const Units& from, const Store& store) {
    move_units<kUnits>(
        part, [&](int unit) { return from.load(unit); }, store);
  }
  /// What came from a rank, from its place to the caller.
  TILELACE_DEVICE void hand(schedule::RowRange part, const uint4* from, int rank) const {
    const Units to = Units(p_.takes[rank]).from(part.begin);
    move_units<kUnits>(
        part, [&](int unit) { return __ldcg(from + unit); },
        [&](int unit, const uint4& v) { to.store(unit, v); });
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
    for (int at = WarpFlags::lane(); at < units; at += kSums * 32) {
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

  const Params& all_;
  const ExchangeParams& p_;
  WarpFlags flags_;
  std::uint32_t sent_ = 0, taken_ = 0;  ///< rounds
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
  schedule::run_staged_exchange(p.schedule, static_cast<int>(blockIdx.x) * kWarps + warp, verbs);
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
