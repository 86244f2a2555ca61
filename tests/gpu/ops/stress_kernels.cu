// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "comm/cuda_atomics.h"
#include "ops/stress_kernels.h"

namespace tilelace::gpu_test {
namespace {

constexpr unsigned kCheckCtas = 32;  // leaves room for the op, which runs beside it
constexpr unsigned kThreads = 256;

template <class T>
__device__ float value_of(std::uint32_t bits) {
  const auto half = static_cast<std::uint16_t>(bits);
  T t;
  memcpy(&t, &half, sizeof t);
  return static_cast<float>(t);
}

template <class T>
__device__ void note(const StressCheck& c, std::int64_t word, std::uint32_t got,
                     std::uint32_t expected) {
  StressTotals& t = *c.totals;
  const std::int64_t row = word / c.n;
  int owner = 0;
  while (owner + 1 < c.ranks && c.borders[owner + 1] <= row) ++owner;
  atomicAdd(&t.wrong, 1ULL);
  atomicAdd(&t.by_owner[owner], 1ULL);
  const auto self = static_cast<unsigned long long>(c.call) + 1;
  if (atomicExch(&t.last_wrong, self) != self) atomicAdd(&t.wrong_calls, 1ULL);
  if (atomicExch(&t.found, 1U) != 0) return;
  t.call = c.call, t.input = c.input, t.row = row, t.col = word % c.n;
  t.got = value_of<T>(got), t.expected = value_of<T>(expected);
}

template <class T>
__global__ void check_kernel(const __grid_constant__ StressCheck c) {
  auto* out = static_cast<uint4*>(c.out);
  const auto* expected = static_cast<const uint4*>(c.expected);
  const std::int64_t pieces = c.m * c.n / 8;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  if (blockIdx.x == 0 && threadIdx.x == 0) atomicAdd(&c.totals->calls, 1ULL);
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < pieces;
       i += step) {
    const uint4 x = out[i];
    const uint4 y = expected[i];
    out[i] = uint4{~0U, ~0U, ~0U, ~0U};
    const std::uint32_t got[] = {x.x, x.y, x.z, x.w};
    const std::uint32_t want[] = {y.x, y.y, y.z, y.w};
    for (int j = 0; j < 4; ++j) {
      if (got[j] == want[j]) continue;
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t g = got[j] >> (16 * half) & 0xFFFF;
        const std::uint32_t w = want[j] >> (16 * half) & 0xFFFF;
        // 0 and -0 are one value.
        if (g != w && ((g | w) & 0x7FFF) != 0) note<T>(c, i * 8 + j * 2 + half, g, w);
      }
    }
  }
}

__device__ void spin(std::int64_t ns) {
  const std::int64_t end = comm::CudaAtomics::now_ns() + ns;
  while (comm::CudaAtomics::now_ns() < end) __nanosleep(200);
}

__global__ void spin_kernel(std::int64_t ns) { spin(ns); }

__global__ void late_copy_kernel(const __grid_constant__ LateCopy c) {
  cudaTriggerProgrammaticLaunchCompletion();
  spin(20'000);
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (int p = 0; p < c.pieces; ++p) {
    auto* to = static_cast<std::uint16_t*>(c.piece[p].to);
    const auto* from = static_cast<const std::uint16_t*>(c.piece[p].from);
    for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
         i < c.piece[p].bytes / 2; i += step)
      to[i] = from[i];
  }
}

}  // namespace

cudaError_t enqueue_check(const StressCheck& check, cudaStream_t stream) {
  if (check.dtype == DType::bf16)
    check_kernel<__nv_bfloat16><<<kCheckCtas, kThreads, 0, stream>>>(check);
  else
    check_kernel<__half><<<kCheckCtas, kThreads, 0, stream>>>(check);
  return cudaGetLastError();
}

cudaError_t enqueue_late_copy(const LateCopy& copy, cudaStream_t stream) {
  late_copy_kernel<<<kCheckCtas, kThreads, 0, stream>>>(copy);
  return cudaGetLastError();
}

cudaError_t enqueue_spin(std::int64_t ns, int ctas, cudaStream_t stream) {
  spin_kernel<<<static_cast<unsigned>(ctas), 32, 0, stream>>>(ns);
  return cudaGetLastError();
}

}  // namespace tilelace::gpu_test
