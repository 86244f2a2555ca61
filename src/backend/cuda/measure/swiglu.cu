// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device/elements.h"
#include "backend/cuda/measure/swiglu.h"

namespace tilelace::cuda::measure {
namespace {

constexpr int kThreads = 256;
constexpr int kCtas = 132 * 8;

__device__ uint4 gated(const uint4& gate, const uint4& up) {
  float g[8] = {};
  float u[8] = {};
  add_elements<__nv_bfloat16>(g, gate);
  add_elements<__nv_bfloat16>(u, up);
#pragma unroll
  for (int e = 0; e < 8; ++e) g[e] = g[e] / (1 + __expf(-g[e])) * u[e];
  return pack_elements<__nv_bfloat16>(g);
}

__global__ void __launch_bounds__(kThreads)
    swiglu_kernel(const uint4* from, uint4* to, std::int64_t rows, std::int64_t units) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < rows * units;
       i += step) {
    const uint4* const gate = from + i / units * 2 * units + i % units;
    to[i] = gated(__ldcs(gate), __ldcs(gate + units));
  }
}

}  // namespace

cudaError_t enqueue_swiglu(const void* from, void* to, std::int64_t rows, std::int64_t cols,
                           cudaStream_t stream) {
  swiglu_kernel<<<kCtas, kThreads, 0, stream>>>(static_cast<const uint4*>(from),
                                                static_cast<uint4*>(to), rows, cols / 8);
  return cudaGetLastError();
}

}  // namespace tilelace::cuda::measure
