// SPDX-License-Identifier: Apache-2.0
// src/backend/cuda/device/sums_by.h for emulated GPUs. These have no multicast, so both kinds of
// Sums access each rank's memory.
#pragma once
#include "backend/cuda/device/elements.h"
#include "backend/cuda/device/sums_place.h"
#include "comm/cuda_atomics.h"

namespace tilelace::cuda {

enum class SumsBy : std::uint8_t { by_switch, by_peers };

template <SumsBy kBy>
struct Sums {
  template <class Element>
  static TILELACE_DEVICE uint4 load(const SumsPlace& p, int rank, std::size_t offset) {
    return *reinterpret_cast<const uint4*>(p.base + rank * p.stride + offset);
  }
  template <class Element>
  static TILELACE_DEVICE void store(const SumsPlace& p, int ranks, std::size_t offset,
                                    const uint4& v) {
    for (int r = 0; r < ranks; ++r) *reinterpret_cast<uint4*>(p.base + r * p.stride + offset) = v;
  }
  static void count(const SumsPlace& p, int ranks, std::size_t offset) {
    const int rank = static_cast<int>(threadIdx.x) & 31;
    if (rank < ranks)
      comm::CudaAtomics::add_release(
          reinterpret_cast<std::uint32_t*>(p.base + rank * p.stride + offset), 1U);
  }
  static void alias_fence() {}
};

}  // namespace tilelace::cuda
