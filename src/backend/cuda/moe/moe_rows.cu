// SPDX-License-Identifier: Apache-2.0
// Rows to their experts, and back: a warp has a stripe of one token's columns.
#include "backend/cuda/base/element_types.h"
#include "backend/cuda/device/early_launch.h"
#include "backend/cuda/device/elements.h"
#include "backend/cuda/moe/moe_kernels.h"

namespace tilelace::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kCopyingCtas = 4, kScalingCtas = 2, kSummingCtas = 3;  ///< of a multiprocessor
constexpr int kCopied = 4;             ///< units of 16 bytes that a lane copies together
constexpr int kUnits = 2, kTerms = 4;  ///< units and slots that a lane sums together

/// Calls each(token, the lane's first unit) for stripes of 32 * kEach units.
template <int kEach, class Each>
TILELACE_DEVICE void for_stripes(const RowsParams& p, const Each& each) {
  const int stripes = (p.units + 32 * kEach - 1) / (32 * kEach);
  const std::int64_t warps = std::int64_t{gridDim.x} * (kThreads / 32);
  const int lane = static_cast<int>(threadIdx.x) & 31;
  for (std::int64_t i = std::int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
       i < p.tokens * stripes; i += warps)
    each(i / stripes, static_cast<int>(i % stripes) * 32 * kEach + lane);
}

/// Each element times a factor, rounded.
template <class Element>
TILELACE_DEVICE uint4 scaled(const uint4& v, float factor) {
  float f[8] = {};
  add_elements<Element>(f, v);
#pragma unroll
  for (float& each : f) each *= factor;
  return pack_elements<Element>(f);
}

template <class Element, bool kWeighted>
__global__ void __launch_bounds__(kThreads, kWeighted ? kScalingCtas : kCopyingCtas)
    permute_kernel(const __grid_constant__ RowsParams p) {
  ptx::launch_dependents();
  ptx::wait_prerequisites();
  for_stripes<kCopied>(p, [&](std::int64_t token, int first) {
    uint4 v[kCopied];
#pragma unroll
    for (int u = 0; u < kCopied; ++u)
      if (first + 32 * u < p.units) v[u] = __ldg(p.from + token * p.units + first + 32 * u);
    const std::int32_t* const rows = p.row_of + token * p.top_k;
    for (int s = 0; s < p.top_k; ++s) {
      const int row = rows[s];
      if (row < 0) continue;
      const std::int64_t pair = token * p.top_k + s;
      if (first == 0) p.source_of[row] = static_cast<std::int32_t>(pair);
      const float weight = kWeighted ? p.weights[pair] : 1;
      uint4* const to = p.to + std::int64_t{row} * p.units + first;
#pragma unroll
      for (int u = 0; u < kCopied; ++u)
        if (first + 32 * u < p.units) to[32 * u] = kWeighted ? scaled<Element>(v[u], weight) : v[u];
    }
  });
}

/// Adds the rows of up to kTerms slots, in their order.
template <class Element>
TILELACE_DEVICE void add_slots(const RowsParams& p, const std::int32_t* rows, int slots, int first,
                               float (&sum)[kUnits][8]) {
  uint4 v[kTerms][kUnits];
  int row[kTerms];
#pragma unroll
  for (int s = 0; s < kTerms; ++s) row[s] = s < slots ? rows[s] : -1;
#pragma unroll
  for (int s = 0; s < kTerms; ++s)
#pragma unroll
    for (int u = 0; u < kUnits; ++u)
      if (row[s] >= 0 && first + 32 * u < p.units)
        v[s][u] = __ldcg(p.from + std::int64_t{row[s]} * p.units + first + 32 * u);
#pragma unroll
  for (int s = 0; s < kTerms; ++s)
#pragma unroll
    for (int u = 0; u < kUnits; ++u)
      if (row[s] >= 0 && first + 32 * u < p.units) add_elements<Element>(sum[u], v[s][u]);
}

template <class Element>
__global__ void __launch_bounds__(kThreads, kSummingCtas)
    sum_slots_kernel(const __grid_constant__ RowsParams p) {
  ptx::launch_dependents();
  ptx::wait_prerequisites();
  for_stripes<kUnits>(p, [&](std::int64_t token, int first) {
    float sum[kUnits][8] = {};
    for (int s = 0; s < p.top_k; s += kTerms)
      add_slots<Element>(p, p.row_of + token * p.top_k + s, p.top_k - s, first, sum);
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (first + 32 * u >= p.units) continue;
      const std::int64_t at = token * p.units + first + 32 * u;
      const std::int64_t added = token - p.add_first;
      if (p.add != nullptr && added >= 0 && added < p.add_rows)
        add_elements<Element>(sum[u], p.add[at - p.add_first * p.units]);
      p.to[at] = pack_elements<Element>(sum[u]);
    }
  });
}

using Kernel = void (*)(RowsParams);
Kernel sum_kernel_of(DType dtype) {
  return with_element(
      dtype, [](auto e) -> Kernel { return sum_slots_kernel<typename decltype(e)::type>; });
}

Kernel permute_kernel_of(DType dtype, bool weighted) {
  return with_element(dtype, [&](auto e) -> Kernel {
    using Element = typename decltype(e)::type;
    return weighted ? permute_kernel<Element, true> : permute_kernel<Element, false>;
  });
}

}  // namespace

cudaError_t enqueue_permute(const RowsParams& p, DType dtype, int multiprocessors,
                            cudaStream_t stream) {
  return launch_as(Start::early, permute_kernel_of(dtype, p.weights != nullptr),
                   multiprocessors * kCopyingCtas, kThreads, stream, p);
}

cudaError_t enqueue_sum_slots(const RowsParams& p, DType dtype, int multiprocessors,
                              cudaStream_t stream) {
  return launch_as(Start::early, sum_kernel_of(dtype), multiprocessors * kSummingCtas, kThreads,
                   stream, p);
}

cudaError_t load_rows() {
  cudaFuncAttributes attributes{};
  return for_each_gpu_dtype([&](DType dtype) {
    for (const Kernel kernel : {permute_kernel_of(dtype, false), permute_kernel_of(dtype, true)}) {
      const cudaError_t status = cudaFuncGetAttributes(&attributes, kernel);
      if (status != cudaSuccess) return status;
    }
    return cudaFuncGetAttributes(&attributes, sum_kernel_of(dtype));
  });
}

}  // namespace tilelace::cuda
