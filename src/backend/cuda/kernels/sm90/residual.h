// SPDX-License-Identifier: Apache-2.0
// Adds a residual to accumulators directly from global memory, not through shared memory. In each
// block of 64 rows x 8 columns, a thread has two adjacent values in each of two rows that are eight
// apart. `row` and `col` are those of the thread's first value.
#pragma once
#include <cstdint>

#include "backend/cuda/device/elements.h"
#include "backend/cuda/kernels/sm90/body.h"

namespace tilelace::cuda {

/// Like add_residual, but value by value, for tiles whose rows are columns of the sum.
template <class Tile, class Element, class Params, class Accumulators>
TILELACE_DEVICE void add_residual_across(const Params& p, Accumulators& acc, int row, int col) {
  constexpr int kAtOnce = 8;
  const auto* from = static_cast<const Element*>(p.residual) + std::int64_t{col} * p.n + row;
#pragma unroll
  for (int first = 0; first < GemmShape<Tile>::kAccumulators; first += kAtOnce) {
#pragma unroll
    for (int i = 0; i < Tile::blocks; ++i) {
      Element some[kAtOnce];
#pragma unroll
      for (int e = 0; e < kAtOnce; ++e) {
        const int token = e / 4 * 8 + e % 2;
        const int n = 64 * i + e / 2 % 2 * 8;
        const bool there = first + e < GemmShape<Tile>::kAccumulators &&
                           col + 2 * first + token < p.own_rows && row + n < p.n;
        some[e] = there ? from[token * p.n + n] : Element{};
      }
#pragma unroll
      for (int e = 0; e < kAtOnce; ++e)
        if (first + e < GemmShape<Tile>::kAccumulators)
          acc[i][first + e] += static_cast<float>(some[e]);
    }
    from += 2 * kAtOnce * p.n;
  }
}

/// Adds the residual, which has the element type, to a sum of this rank's rows. The loading warp
/// has fetched the residual into L2. No branches separate the loads, so several are in flight.
template <class Tile, class Element, class Params, class Accumulators>
TILELACE_DEVICE void add_residual(const Params& p, Accumulators& acc, int row, int col) {
  if constexpr (Tile::swapped) return add_residual_across<Tile, Element>(p, acc, row, col);
  constexpr int kGroups = GemmShape<Tile>::kAccumulators / 4;
  constexpr int kAtOnce = 8;
  const auto* const from = static_cast<const std::uint32_t*>(p.residual);
  const int pitch = p.n / 2;
#pragma unroll
  for (int i = 0; i < Tile::blocks; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + 64 * i + 8 * half;
      const std::uint32_t* const at = from + std::int64_t{r} * pitch + col / 2;
#pragma unroll
      for (int first = 0; first < kGroups; first += kAtOnce) {
        std::uint32_t words[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j)
          if (first + j < kGroups)
            words[j] = ptx::load_where(at + 4 * (first + j),
                                       r < p.own_rows && col + 8 * (first + j) < p.n);
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          if (first + j >= kGroups) continue;
          const float2 v = unpack(words[j], Element{});
          acc[i][4 * (first + j) + 2 * half] += v.x;
          acc[i][4 * (first + j) + 2 * half + 1] += v.y;
        }
      }
    }
}

template <class T, class E>
template <class Params, class Math>
TILELACE_DEVICE void Sm90<T, E>::add_residual(const Params& p, Math& math, int row, int col) {
  if (p.residual == nullptr) return;
  const int lane = math.lane();
  cuda::add_residual<Tile, Element>(p, math.accumulators(), row + 16 * math.warp() + lane / 4,
                                    col + 2 * (lane & 3));
}

}  // namespace tilelace::cuda
