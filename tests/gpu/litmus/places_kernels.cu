// SPDX-License-Identifier: Apache-2.0
#include "comm/cuda_atomics.h"
#include "places_kernels.h"

namespace tilelace::gpu_test {
namespace {

constexpr unsigned kThreads = 128;
constexpr int kSharedBytes = 200 * 1024;  // no second one fits beside it
constexpr std::int64_t kLongestNs = 2'000'000'000;

__global__ void hold_kernel(HoldPage* page) {
  if (threadIdx.x != 0) return;
  unsigned id = 0;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  page->multiprocessor[blockIdx.x] = static_cast<std::uint16_t>(id);
  __threadfence_system();
  atomicAdd_system(&page->began, 1U);
  const std::int64_t end = comm::CudaAtomics::now_ns() + kLongestNs;
  while (*static_cast<volatile std::uint32_t*>(&page->release) == 0 &&
         comm::CudaAtomics::now_ns() < end)
    __nanosleep(500);
}

}  // namespace

cudaError_t enqueue_hold(HoldPage* page, int ctas, int cluster, cudaStream_t stream) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(ctas));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kSharedBytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, hold_kernel, page);
}

cudaError_t load_hold() {
  return cudaFuncSetAttribute(hold_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              kSharedBytes);
}

}  // namespace tilelace::gpu_test
