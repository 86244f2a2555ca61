// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device/wait.h"
#include "backend/cuda/rank/await_flag.h"

namespace tilelace::cuda {
namespace {

__global__ void __launch_bounds__(32) await_flag_kernel(const __grid_constant__ AwaitFlag a) {
  const std::uint32_t epoch = *a.epoch;
  const bool came = wait(a.wait, a.place, a.flag, epoch) == comm::WaitStatus::reached;
  // A slot's flags were at most at the call before the last: that one again raises nothing.
  *a.granted = came ? epoch : epoch - 2;
}

__global__ void __launch_bounds__(32) raise_flag_kernel(const __grid_constant__ RaiseFlag r) {
  if (stopped(r.wait) || detail::host_word(r.wait) != 0) return;
  comm::signal<comm::CudaAtomics>(r.flag, *r.epoch);  // stays: behind NCCL alone
}

}  // namespace

cudaError_t enqueue_await_flag(const AwaitFlag& await, cudaStream_t stream) {
  await_flag_kernel<<<1, 1, 0, stream>>>(await);
  return cudaGetLastError();
}

cudaError_t enqueue_raise_flag(const RaiseFlag& raise, cudaStream_t stream) {
  raise_flag_kernel<<<1, 1, 0, stream>>>(raise);
  return cudaGetLastError();
}

cudaError_t load_await_flag() {
  cudaFuncAttributes attributes{};
  cudaError_t status = cudaFuncGetAttributes(&attributes, await_flag_kernel);
  // On a multiprocessor that is set up for a large cache a product would find no place beside it.
  if (status == cudaSuccess)
    status = cudaFuncSetAttribute(await_flag_kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                  cudaSharedmemCarveoutMaxShared);
  return status == cudaSuccess ? cudaFuncGetAttributes(&attributes, raise_flag_kernel) : status;
}

}  // namespace tilelace::cuda
