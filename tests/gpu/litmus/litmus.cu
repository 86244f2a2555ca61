// SPDX-License-Identifier: Apache-2.0
#include "litmus.h"
#include "litmus_sides.h"

namespace tilelace::gpu_test {
namespace {

__global__ void reset_kernel(const __grid_constant__ Litmus l) {
  const auto thread = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const auto threads = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  auto* const words = reinterpret_cast<std::uint32_t*>(l.base + l.rank * l.stride);
  const std::size_t flag_words = flag_bytes(l) / 4;
  const std::uint32_t fill = l.payload == Payload::copy ? 0xffffffffU : 0U;
  for (std::size_t i = thread; i < litmus_bytes(l.ranks) / 4; i += threads)
    words[i] = i < flag_words ? l.first : fill;
}

__global__ void __launch_bounds__(kThreads, 1) litmus_kernel(const __grid_constant__ Litmus l) {
  extern __shared__ __align__(128) std::byte pieces[];
  __shared__ std::uint64_t barriers[kRingDepth];
  const int lane = static_cast<int>(blockIdx.x) % kLanes;
  if (blockIdx.x < kLanes)
    produce(l, lane, pieces, barriers);
  else
    consume(l, lane, pieces, barriers);
}

}  // namespace

cudaError_t enqueue_litmus_reset(const Litmus& l, cudaStream_t stream) {
  reset_kernel<<<64, 256, 0, stream>>>(l);
  return cudaGetLastError();
}

cudaError_t prepare_litmus() {
  const cudaError_t status = cudaFuncSetAttribute(
      litmus_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxLaneBytes);
  if (status != cudaSuccess) return status;
  litmus_kernel<<<2 * kLanes, kThreads, kMaxLaneBytes>>>(Litmus{});
  const cudaError_t launched = cudaGetLastError();
  return launched != cudaSuccess ? launched : cudaDeviceSynchronize();
}

cudaError_t enqueue_litmus(const Litmus& l, cudaStream_t stream) {
  litmus_kernel<<<2 * kLanes, kThreads, kMaxLaneBytes, stream>>>(l);
  return cudaGetLastError();
}

}  // namespace tilelace::gpu_test
