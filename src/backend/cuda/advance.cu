// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/advance.h"
#include "comm/cuda_atomics.h"

namespace tilelace::cuda {
namespace {

__global__ void advance_kernel(const __grid_constant__ Advance a) {
  const std::uint32_t epoch = *a.epoch + 1;
  *a.epoch = epoch;
  if (a.base == nullptr) return;
  const auto own = static_cast<std::size_t>((epoch & 1U) * a.ranks + a.rank);
  for (int i = 1; i < a.ranks; ++i) {
    const int peer = (a.rank + i) % a.ranks;
    std::byte* const at = a.base + static_cast<std::size_t>(peer) * a.stride + a.headers;
    // stays: measurements alone (tests/gpu/baselines)
    comm::signal<comm::CudaAtomics>(reinterpret_cast<comm::Header*>(at) + own, epoch, a.hash);
  }
}

}  // namespace

cudaError_t enqueue_advance(const Advance& advance, cudaStream_t stream) {
  advance_kernel<<<1, 1, 0, stream>>>(advance);
  return cudaGetLastError();
}

}  // namespace tilelace::cuda
