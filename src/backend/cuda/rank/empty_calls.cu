// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device/call.h"
#include "backend/cuda/device/early_launch.h"
#include "backend/cuda/device/ptx.h"
#include "backend/cuda/rank/empty_calls.h"

namespace tilelace::cuda {
namespace {

__global__ void __launch_bounds__(32)
    align_kernel(const __grid_constant__ CallParams c, unsigned parity) {
  ptx::launch_dependents();
  ptx::wait_prerequisites();
  const std::uint32_t epoch = call_number(c);
  if (((epoch - 1) & 1U) == parity) return;
  send_headers(c, epoch);
  __syncwarp();
  if (threadIdx.x == 0) count_call(c, epoch);
  wait_admission(c, epoch);
}

__global__ void admit_kernel(const __grid_constant__ CallParams c) {
  const std::uint32_t epoch = call_number(c);
  send_headers(c, epoch);
  __syncwarp();
  if (threadIdx.x == 0) count_call(c, epoch);
  wait_admission(c, epoch);
}

}  // namespace

cudaError_t enqueue_align(const CallParams& call, unsigned parity, Start start,
                          cudaStream_t stream) {
  return launch_as(start, align_kernel, 1, 32, stream, call, parity);
}

cudaError_t enqueue_admit(const CallParams& call, cudaStream_t stream) {
  admit_kernel<<<1, 32, 0, stream>>>(call);
  return cudaGetLastError();
}

cudaError_t load_empty_calls() {
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, align_kernel);
  return status == cudaSuccess ? cudaFuncGetAttributes(&attributes, admit_kernel) : status;
}

}  // namespace tilelace::cuda
