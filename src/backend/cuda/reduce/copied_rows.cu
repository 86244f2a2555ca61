// SPDX-License-Identifier: Apache-2.0
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/base/element_types.h"
#include "backend/cuda/device/sum_chunks.h"
#include "backend/cuda/reduce/copied_rows.h"

namespace tilelace::cuda {
namespace {

using schedule::Index;
using schedule::SumChunk;

constexpr int kThreads = 256;
/// Ranks whose loads are under way together.
constexpr int kTerms = 8;

/// Verbs of run_copied_rows, for a CTA.
template <class Element>
class CopiedVerbs {
 public:
  TILELACE_DEVICE explicit CopiedVerbs(const CopiedSum& p) : p_(p) {}

  TILELACE_DEVICE void reduce(const SumChunk& c) {
    for (Index i = c.units.begin + thread(); i < c.units.end; i += kThreads) {
      float sum[8] = {};
      for (int first = 0; first < p_.schedule.ranks; first += kTerms) add_terms(sum, first, i, c);
      reinterpret_cast<uint4*>(p_.out)[i - p_.out_begin] = finish_sum<Element>(p_, sum, i);
    }
  }

 private:
  TILELACE_DEVICE static int thread() { return static_cast<int>(threadIdx.x); }
  TILELACE_DEVICE std::byte* slot() const { return p_.call.memory_at(p_.call.rank); }
  TILELACE_DEVICE static uint4 unit(const std::byte* from, Index i) {
    return __ldcg(reinterpret_cast<const uint4*>(from) + i);
  }

  /// Adds the terms of up to kTerms ranks, in rank order.
  TILELACE_DEVICE void add_terms(float (&sum)[8], int first, Index i, const SumChunk& c) const {
    uint4 v[kTerms];
#pragma unroll
    for (int t = 0; t < kTerms; ++t)
      if (first + t < p_.schedule.ranks) v[t] = term(first + t, i, c);
#pragma unroll
    for (int t = 0; t < kTerms; ++t)
      if (first + t < p_.schedule.ranks) add_elements<Element>(sum, v[t]);
  }
  TILELACE_DEVICE uint4 term(int q, Index i, const SumChunk& c) const {
    if (q == p_.call.rank) return unit(slot() + p_.partials, i);
    const int before = (q + p_.schedule.ranks - p_.call.rank) % p_.schedule.ranks - 1;
    return unit(slot() + p_.incoming + static_cast<std::size_t>(before) * p_.pitch,
                i - p_.schedule.rows[c.owner].begin);
  }

  const CopiedSum& p_;
};

template <class Element>
__global__ void __launch_bounds__(kThreads, 2) copied_kernel(const __grid_constant__ CopiedSum p) {
  std::uint32_t epoch = 0;
  if (!enter_behind_product(p.call, epoch)) return;
  CopiedVerbs<Element> verbs(p);
  schedule::run_copied_rows(p.schedule, static_cast<int>(blockIdx.x), verbs);
}

using Kernel = void (*)(CopiedSum);

Kernel kernel_of(DType dtype) {
  return with_element(dtype,
                      [](auto e) -> Kernel { return copied_kernel<typename decltype(e)::type>; });
}

}  // namespace

cudaError_t enqueue_copied_sum(const CopiedSum& sum, Start start, cudaStream_t stream) {
  return launch_sum(kernel_of(sum.dtype), sum, kThreads, start, stream);
}

cudaError_t load_copied_rows() { return load_each_gpu_dtype(kernel_of); }

}  // namespace tilelace::cuda
