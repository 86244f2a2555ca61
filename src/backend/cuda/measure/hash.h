// SPDX-License-Identifier: Apache-2.0
// Hashes positions to numbers, for inputs that each device can compute without the others.
#pragma once
#include <cstdint>

namespace tilelace::cuda::measure {

__device__ inline std::uint64_t hash(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace tilelace::cuda::measure
