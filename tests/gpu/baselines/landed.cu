// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device/wait.h"
#include "landed.h"

namespace tilelace::gpu_test {
namespace {

__global__ void landed_kernel(const __grid_constant__ Landed l) {
  const cuda::WaitPlace place{cuda::Role::load, 0, -1, l.source,
                              static_cast<std::uint32_t>(l.source)};
  cuda::wait(l.wait, place, l.flag, *l.epoch);
}

}  // namespace

cudaError_t enqueue_landed(const Landed& landed, cudaStream_t stream) {
  landed_kernel<<<1, 1, 0, stream>>>(landed);
  return cudaGetLastError();
}

}  // namespace tilelace::gpu_test
