// SPDX-License-Identifier: Apache-2.0
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/base/element_types.h"
#include "backend/cuda/device/sum_chunks.h"
#include "backend/cuda/reduce/reduce_rows.h"

namespace tilelace::cuda {
namespace {

using schedule::Index;
using schedule::SumChunk;

constexpr int kThreads = 256;
/// Units of a thread, and ranks, whose loads are under way together: a round trip to a peer is
/// about 2 us, in which a link moves 0.8 MB.
constexpr int kUnits = 2, kTerms = 4;

/// Verbs of run_reduce_rows, for a CTA: all its threads call all of them.
template <class Element>
class SumVerbs {
 public:
  TILELACE_DEVICE SumVerbs(const SumRows& p, std::uint32_t epoch)
      : p_(p), flags_(p.call, epoch, p.schedule.max_chunks) {}

  TILELACE_DEVICE void reduce(const SumChunk& c) {
    if (flags_.failed()) return;
    for (Index at = c.units.begin + thread(); at < c.units.end; at += kUnits * kThreads) {
      float sum[kUnits][8] = {};
      for (int first = 0; first < p_.schedule.ranks; first += kTerms) add(sum, first, at, c);
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        if (at + u * kThreads < c.units.end) store(sum[u], at + u * kThreads);
    }
    flags_.wrote();
  }

  TILELACE_DEVICE void signal(int peer, Index flag) { flags_.signal(peer, flag); }
  TILELACE_DEVICE void wait(Index flag) { flags_.wait(flag); }

  TILELACE_DEVICE void deliver(const SumChunk& c) {
    if (!flags_.settle()) return;
    const auto* const from = reinterpret_cast<const uint4*>(at(p_.call.rank) + p_.partials);
    deliver_sums<kThreads, kTerms>(p_, from, c);
  }

 private:
  TILELACE_DEVICE static int thread() { return static_cast<int>(threadIdx.x); }
  TILELACE_DEVICE std::byte* at(int rank) const { return p_.call.memory_at(rank); }
  TILELACE_DEVICE uint4& out(Index unit) const {
    return reinterpret_cast<uint4*>(p_.out)[unit - p_.out_begin];
  }
  /// Rank q's partial.
  TILELACE_DEVICE const uint4* term(int q) const {
    return reinterpret_cast<const uint4*>(q == p_.call.rank ? p_.own : at(q) + p_.partials);
  }

  /// Adds the terms of up to kTerms ranks, in rank order.
  TILELACE_DEVICE void add(float (&sum)[kUnits][8], int first, Index unit,
                           const SumChunk& c) const {
    uint4 v[kTerms][kUnits];
#pragma unroll
    for (int t = 0; t < kTerms; ++t)
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        if (first + t < p_.schedule.ranks && unit + u * kThreads < c.units.end)
          v[t][u] = __ldcg(term(first + t) + unit + u * kThreads);
#pragma unroll
    for (int t = 0; t < kTerms; ++t)
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        if (first + t < p_.schedule.ranks && unit + u * kThreads < c.units.end)
          add_elements<Element>(sum[u], v[t][u]);
  }

  TILELACE_DEVICE void store(float (&sum)[8], Index unit) const {
    const uint4 done = finish_sum<Element>(p_, sum, unit);
    out(unit) = done;
    if (!p_.schedule.share) return;
    for (int i = 1; i < p_.schedule.ranks; ++i) {
      const int peer = (p_.call.rank + i) % p_.schedule.ranks;
      reinterpret_cast<uint4*>(at(peer) + p_.partials)[unit] = done;
    }
  }

  const SumRows& p_;
  ChunkFlags flags_;
};

template <class Element>
__global__ void __launch_bounds__(kThreads, 1) sum_kernel(const __grid_constant__ SumRows p) {
  std::uint32_t epoch = 0;
  if (!enter_behind_product(p.call, epoch)) return;
  SumVerbs<Element> verbs(p, epoch);
  schedule::run_reduce_rows(p.schedule, static_cast<int>(blockIdx.x), verbs);
}

using Kernel = void (*)(SumRows);

Kernel kernel_of(DType dtype) {
  return with_element(dtype,
                      [](auto e) -> Kernel { return sum_kernel<typename decltype(e)::type>; });
}

}  // namespace

cudaError_t enqueue_sum(const SumRows& sum, Start start, cudaStream_t stream) {
  return launch_sum(kernel_of(sum.dtype), sum, kThreads, start, stream);
}

cudaError_t load_sum_rows() { return load_each_gpu_dtype(kernel_of); }

}  // namespace tilelace::cuda
