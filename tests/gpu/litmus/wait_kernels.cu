// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device/transfer.h"
#include "backend/cuda/device/wait.h"
#include "wait_kernels.h"

namespace tilelace::gpu_test {
namespace {

__device__ comm::Flag* flag_of(const WaitCall& c, int at, int writer) {
  return reinterpret_cast<comm::Flag*>(c.base + at * c.stride + writer * 64);
}

__global__ void wait_kernel(const __grid_constant__ WaitCall c) {
  for (int i = 1; i < c.ranks && blockIdx.x == 0 && threadIdx.x == 0; ++i)
    cuda::signal(flag_of(c, (c.rank + i) % c.ranks, c.rank), c.epoch);
  for (int i = 1; i < c.ranks; ++i) {
    const int peer = (c.rank + i) % c.ranks;
    const cuda::WaitPlace place{cuda::Role::math, i, static_cast<std::int32_t>(blockIdx.x), peer,
                                static_cast<std::uint32_t>(peer)};
    if (!cuda::wait_cta(c.wait, place, flag_of(c, c.rank, peer), c.awaited)) return;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *c.done = c.epoch;
}

__global__ void values_kernel(std::uint32_t* values, int count, std::uint32_t seed) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] = static_cast<std::uint32_t>(i) * 3 + seed;
}

}  // namespace

cudaError_t enqueue_wait_call(const WaitCall& call, int ctas, cudaStream_t stream) {
  wait_kernel<<<static_cast<unsigned>(ctas), 64, 0, stream>>>(call);
  return cudaGetLastError();
}

cudaError_t enqueue_values(std::uint32_t* values, int count, std::uint32_t seed,
                           cudaStream_t stream) {
  values_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(values, count,
                                                                                seed);
  return cudaGetLastError();
}

}  // namespace tilelace::gpu_test
