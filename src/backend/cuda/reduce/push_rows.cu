// SPDX-License-Identifier: Apache-2.0
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/base/element_types.h"
#include "backend/cuda/device/push_crew.h"
#include "backend/cuda/device/sum_chunks.h"
#include "backend/cuda/reduce/push_rows.h"

namespace tilelace::cuda {
namespace {

using schedule::Index;
using schedule::PushedChunk;
using schedule::SumChunk;

/// Units of a thread, and ranks, whose loads are under way together.
constexpr int kUnits = 2, kTerms = 4;
constexpr int kThreads = 512;  ///< that move data

/// Verbs of run_push_rows for the threads that move data.
template <class Element>
class PushMover {
 public:
  TILELACE_DEVICE PushMover(const PushSum& p, const PushPlaces& places, const Trace& trace)
      : p_(p), places_(places), trace_(trace) {}

  TILELACE_DEVICE void push(PushedChunk c) {
    if (p_.schedule.everyone)
      push_same(c.index);
    else
      for (int first = 1; first < p_.schedule.ranks; first += kTerms) push_some(c.index, first);
    fresh_ = true;
    note(TraceKind::written);
  }

  TILELACE_DEVICE void signal(int /*peer*/, Index /*flag*/) {
    if (!fresh_) return;
    fresh_ = false;
    __syncwarp();
    if (lane() == 0) ptx::barrier_arrive(places_.moved + 8 * moved_);
    ++moved_;
  }

  TILELACE_DEVICE void admit() {}
  TILELACE_DEVICE void wait(Index /*flag*/) { waits_ = true; }

  TILELACE_DEVICE void reduce(const SumChunk& c) {
    settle_waits();
    fresh_ = true;
    if (failed_) return;
    for (Index at = c.units.begin + thread(); at < c.units.end; at += kUnits * kThreads) {
      float sum[kUnits][8] = {};
      for (int first = 0; first < p_.schedule.ranks; first += kTerms) add(sum, first, at, c);
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        if (at + u * kThreads < c.units.end) store(sum[u], at + u * kThreads);
    }
    note(TraceKind::summed);
  }

  TILELACE_DEVICE void deliver(const SumChunk& c) {
    settle_waits();
    if (failed_) return;
    const auto* const from =
        reinterpret_cast<const uint4*>(p_.sums + p_.call.rank * p_.sums_stride);
    deliver_sums<kThreads, kTerms>(p_, from, c);
    note(TraceKind::copied);
  }

 private:
  TILELACE_DEVICE static int thread() { return static_cast<int>(threadIdx.x); }
  TILELACE_DEVICE void note(TraceKind kind) const {
    if (thread() == 0) trace_.add(kind, 0);
  }
  TILELACE_DEVICE uint4& out(Index unit) const {
    return reinterpret_cast<uint4*>(p_.out)[unit - p_.out_begin];
  }
  /// What the source pushed to a rank, its first unit the rank's first.
  TILELACE_DEVICE uint4* place(int rank, int source) const {
    return reinterpret_cast<uint4*>(p_.call.memory_at(rank) + p_.terms +
                                    schedule::PushRows::place(rank, source) * p_.term_pitch);
  }

  /// Chunk i of up to kTerms peers.
  TILELACE_DEVICE void push_some(Index i, int first) const {
    const schedule::PushRows& s = p_.schedule;
    const uint4* from[kTerms];
    uint4* to[kTerms];
    int units[kTerms];
#pragma unroll
    for (int t = 0; t < kTerms; ++t) {
      const int q = (s.rank + first + t) % s.ranks;
      const bool there = first + t < s.ranks && i < s.chunks[q];
      const SumChunk c = s.chunk(q, there ? i : 0);
      units[t] = there ? static_cast<int>(c.units.size()) : 0;
      from[t] = reinterpret_cast<const uint4*>(p_.own) + c.units.begin;
      to[t] = place(q, s.rank) + (c.units.begin - s.rows[q].begin);
    }
    for (int at = thread(); at < s.chunk_units; at += kUnits * kThreads) {
      uint4 v[kTerms][kUnits];
#pragma unroll
      for (int t = 0; t < kTerms; ++t)
#pragma unroll
        for (int u = 0; u < kUnits; ++u)
          if (at + u * kThreads < units[t]) v[t][u] = __ldcg(from[t] + at + u * kThreads);
#pragma unroll
      for (int t = 0; t < kTerms; ++t)
#pragma unroll
        for (int u = 0; u < kUnits; ++u)
          if (at + u * kThreads < units[t]) to[t][at + u * kThreads] = v[t][u];
    }
  }

  /// Chunk i, which all peers sum.
  TILELACE_DEVICE void push_same(Index i) const {
    const schedule::PushRows& s = p_.schedule;
    const SumChunk c = s.chunk(s.rank, i);
    const auto* const from = reinterpret_cast<const uint4*>(p_.own);
    for (Index at = c.units.begin + thread(); at < c.units.end; at += kUnits * kThreads) {
      uint4 v[kUnits];
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        if (at + u * kThreads < c.units.end) v[u] = __ldcg(from + at + u * kThreads);
      for (int q = 1; q < s.ranks; ++q) {
        uint4* const to = place((s.rank + q) % s.ranks, s.rank);
#pragma unroll
        for (int u = 0; u < kUnits; ++u)
          if (at + u * kThreads < c.units.end) to[at + u * kThreads] = v[u];
      }
    }
  }

  /// Adds the terms of up to kTerms ranks, in rank order.
  TILELACE_DEVICE void add(float (&sum)[kUnits][8], int first, Index unit,
                           const SumChunk& c) const {
    const schedule::PushRows& s = p_.schedule;
    uint4 v[kTerms][kUnits];
#pragma unroll
    for (int t = 0; t < kTerms; ++t) {
      const int q = first + t;
      if (q >= s.ranks) continue;
      const uint4* const from = q == s.rank ? reinterpret_cast<const uint4*>(p_.own)
                                            : place(s.rank, q) - s.rows[s.rank].begin;
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        if (unit + u * kThreads < c.units.end) v[t][u] = __ldcg(from + unit + u * kThreads);
    }
#pragma unroll
    for (int t = 0; t < kTerms; ++t)
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        if (first + t < s.ranks && unit + u * kThreads < c.units.end)
          add_elements<Element>(sum[u], v[t][u]);
  }

  TILELACE_DEVICE void store(float (&sum)[8], Index unit) const {
    const uint4 done = finish_sum<Element>(p_, sum, unit);
    if (p_.schedule.share)
      for (int i = 1; i < p_.schedule.ranks; ++i) {
        const int peer = (p_.call.rank + i) % p_.schedule.ranks;
        reinterpret_cast<uint4*>(p_.sums + peer * p_.sums_stride)[unit] = done;
      }
    out(unit) = done;
  }

  /// Until what was asked for since the last time is here.
  TILELACE_DEVICE void settle_waits() {
    if (!waits_) return;
    waits_ = false;
    ptx::barrier_wait(places_.here + 8 * here_, 0);
    ++here_;
    failed_ = ptx::load_shared(places_.failed) != 0;
    note(TraceKind::terms_here);
  }

  const PushSum& p_;
  PushPlaces places_;
  Trace trace_;
  int moved_ = 0, here_ = 0;
  bool fresh_ = false, waits_ = false, failed_ = false;
};

template <class Element>
__global__ void __launch_bounds__(kThreads + 64)
    push_sum_kernel(const __grid_constant__ PushSum p) {
  __shared__ PushShared shared;
  const PushPlaces places(shared);
  const Trace trace = make_trace(p);
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2 * schedule::kMaxPushRounds; ++i) {
      ptx::barrier_init(places.moved + 8 * i, kThreads / 32);
      ptx::barrier_init(places.here + 8 * i, 1);
    }
    ptx::barrier_init(places.numbered, 1);
    ptx::barrier_init_fence();  // stays: no copies use them; __syncthreads is for threads
    ptx::store_shared(places.failed, 0);
    trace.begin(0);
  }
  __syncthreads();
  ptx::wait_prerequisites();
  if (threadIdx.x == 0) trace.add(TraceKind::ready, 0);
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp == kThreads / 32) return watch(p, places, trace);
  if (warp > kThreads / 32) return tell(p, places);
  PushMover<Element> mover(p, places, trace);
  schedule::run_push_rows(p.schedule, static_cast<int>(blockIdx.x), mover);
  if (threadIdx.x == 0) trace.add(TraceKind::exit, 0);
}

using Kernel = void (*)(PushSum);

Kernel kernel_of(DType dtype) {
  return with_element(dtype,
                      [](auto e) -> Kernel { return push_sum_kernel<typename decltype(e)::type>; });
}

}  // namespace

cudaError_t enqueue_push_sum(const PushSum& sum, Start start, cudaStream_t stream) {
  return launch_sum(kernel_of(sum.dtype), sum, kThreads + 64, start, stream);
}

cudaError_t load_push_rows() {
  return for_each_gpu_dtype([](DType dtype) {
    cudaFuncAttributes attributes{};
    return cudaFuncGetAttributes(&attributes, kernel_of(dtype));
  });
}

}  // namespace tilelace::cuda
