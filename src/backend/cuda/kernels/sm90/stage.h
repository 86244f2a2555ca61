// SPDX-License-Identifier: Apache-2.0
// Writes a warpgroup's accumulators to shared memory as a chunk of results, in the layout of the
// store's tensor map. The layout is 128-byte swizzle. If the last columns are fewer than 64, their
// layout is row after row.
#pragma once
#include "backend/cuda/device/elements.h"
#include "backend/cuda/kernels/sm90/shape.h"

namespace tilelace::cuda {

/// This lane's address for store_matrices, in bytes into the chunk, for columns 8j .. 8j + 15.
template <int kCols>
TILELACE_DEVICE int staged_along(int j, int warp, int lane) {
  const int row = 16 * warp + (lane & 15);
  const int eight = j + lane / 16;
  if (kCols == 64) return row * 128 + ((eight ^ (row & 7)) << 4);
  // An odd number of eights: store_matrices writes one eight more, which goes behind the rows.
  if (eight == kCols / 8) return 64 * 2 * kCols + row * 16;
  return row * 2 * kCols + eight * 16;
}
/// The same if the tile's columns are tokens (rows of the result).
TILELACE_DEVICE int staged_across(int j, int warp, int lane) {
  const int token = 8 * (j + lane / 16) + (lane & 7);
  const int eight = 2 * warp + (lane / 8 & 1);
  return token * 128 + ((eight ^ (token & 7)) << 4);
}

/// Writes results into `chunk`. `v`: accumulators of kCols columns of a block, which are
/// overwritten. The first accumulator is at (row, col) of the result.
template <class Body, int kCols, class Columns>
TILELACE_DEVICE void stage_results(const Columns& columns, ptx::Shared chunk, float* v, int row,
                                   int col, int warp, int lane) {
  using Element = typename Body::Element;
  constexpr bool kSwapped = Body::Tile::swapped;
  static_assert(kSwapped || kCols == 64 || 64 * 2 * kCols + 64 * 16 <= kChunkBytes);
  columns.template complete<kCols>(v, row, col);
#pragma unroll
  for (int j = 0; j < kCols / 8; j += 2) {
    const bool both = j + 1 < kCols / 8;
    float f[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) f[e] = e < 4 || both ? v[4 * j + e] : 0.0F;
    columns.combine(f, v + 4 * j, both);
    const std::uint32_t r[4] = {pack(f[0], f[1], Element{}), pack(f[2], f[3], Element{}),
                                pack(f[4], f[5], Element{}), pack(f[6], f[7], Element{})};
    const int at = kSwapped ? staged_across(j, warp, lane) : staged_along<kCols>(j, warp, lane);
    ptx::store_matrices<kSwapped>(chunk + at, r);
  }
}

}  // namespace tilelace::cuda
