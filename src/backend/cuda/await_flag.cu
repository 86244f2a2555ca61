// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/await_flag.h"
#include "backend/cuda/device/wait.h"

namespace tilelace::cuda {
namespace {

__global__ void __launch_bounds__(32) await_flag_kernel(const __grid_constant__ AwaitFlag a) {
  const std::uint32_t epoch = *a.epoch;
  const bool came = wait(a.wait, a.place, a.flag, epoch) == comm::WaitStatus::reached;
  // A slot's flags were at most at the call before the last: that one again raises nothing.
  *a.granted = came ? epoch : epoch - 2;
}

}  // namespace

cudaError_t enqueue_await_flag(const AwaitFlag& await, cudaStream_t stream) {
  await_flag_kernel<<<1, 1, 0, stream>>>(await);
  return cudaGetLastError();
}

cudaError_t load_await_flag() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, await_flag_kernel);
}

}  // namespace tilelace::cuda
