// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/element_types.h"
#include "backend/cuda/measure/fill.h"
#include "backend/cuda/measure/hash.h"

namespace tilelace::cuda::measure {
namespace {

constexpr unsigned kBlocks = 1056;
constexpr unsigned kThreads = 256;

template <class T>
__global__ void normal_kernel(T* data, std::size_t elements, std::uint64_t seed,
                              std::size_t first) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += step) {
    const std::uint64_t h = hash(seed * 0x100000001B3ULL + first + i);
    const float u = (static_cast<float>(h >> 40) + 1.0F) * 0x1p-24F;
    const float v = static_cast<float>(h & 0xFFFFFF) * 0x1p-24F;
    data[i] = static_cast<T>(sqrtf(-2.0F * __logf(u)) * cospif(2.0F * v));
  }
}

}  // namespace

void fill_normal(void* data, std::size_t elements, DType dtype, std::uint64_t seed,
                 cudaStream_t stream, std::size_t first) {
  with_element(dtype, [&](auto e) {
    normal_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<typename decltype(e)::type*>(data),
                                                    elements, seed, first);
  });
  check(cudaGetLastError(), "filling");
}

}  // namespace tilelace::cuda::measure
