// SPDX-License-Identifier: Apache-2.0
// From a warpgroup's accumulators to results: bias and activation (or the gate), one rounding, and
// the layout in shared memory that tensor stores expect.
#pragma once
#include "backend/cuda/device/activation.h"
#include "backend/cuda/kernels/gemm_params.h"
#include "backend/cuda/kernels/gemm_shape.h"
#include "backend/cuda/kernels/gemm_values.h"

namespace tilelace::cuda {

template <class Tile, class Element, class Params>
class GemmResults {
  static constexpr int kUp = GemmShape<Tile>::kAccumulators / 2;  ///< up's, behind gate's

 public:
  /// `section`: of the tile. `warp`: of the warpgroup.
  TILELACE_DEVICE GemmResults(const Params& p, int section, int warp, int lane)
      : p_(p), section_(section), warp_(warp), lane_(lane) {}

  /// `v`: columns of this chunk of a block. Fragments go to shared memory in the layout that the
  /// tensor map of the store expects: 128-byte swizzle, or 8 columns a plane for a rest.
  template <int kCols>
  TILELACE_DEVICE void stage(ptx::Shared chunk, const float* v, int row, int col) const {
    constexpr bool kPlanes = kCols < 64 && !Tile::swapped;
#pragma unroll
    for (int j = 0; j < kCols / 8; j += 2) {
      float f[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) f[e] = j + e / 4 < kCols / 8 ? v[4 * j + e] : 0.0F;
      if constexpr (Params::kGates) {
        float up[8];
#pragma unroll
        for (int e = 0; e < 8; ++e) up[e] = j + e / 4 < kCols / 8 ? v[kUp + 4 * j + e] : 0.0F;
        gate(f, up, col + 8 * j, j + 1 < kCols / 8);
      } else {
        complete(f, row, col + 8 * j, j + 1 < kCols / 8);
      }
      const std::uint32_t r[4] = {pack(f[0], f[1], Element{}), pack(f[2], f[3], Element{}),
                                  pack(f[4], f[5], Element{}), pack(f[6], f[7], Element{})};
      ptx::store_matrices<Tile::swapped>(chunk + (Tile::swapped ? across(j) : along<kPlanes>(j)),
                                         r);
    }
  }

 private:
  /// Where this lane's row of two 8 x 8 matrices, one beside the other, goes.
  template <bool kPlanes>
  TILELACE_DEVICE int along(int j) const {
    const int row = 16 * warp_ + (lane_ & 15);
    const int eight = j + lane_ / 16;
    return kPlanes ? eight * 1024 + row * 16 : row * 128 + ((eight ^ (row & 7)) << 4);
  }
  /// The same when columns (tokens) become rows.
  TILELACE_DEVICE int across(int j) const {
    const int token = 8 * (j + lane_ / 16) + (lane_ & 7);
    const int eight = 2 * warp_ + (lane_ / 8 & 1);
    return token * 128 + ((eight ^ (token & 7)) << 4);
  }

  /// silu(gate + bias) * (up + bias) of 2 rows x 2 x 2 columns.
  TILELACE_DEVICE void gate(float (&f)[8], float (&up)[8], int col, bool both) const {
    if (p_.bias != nullptr) add_bias(f, p_.bias, col, both);
    if (p_.up_bias != nullptr) add_bias(up, p_.up_bias, col, both);
#pragma unroll
    for (int e = 0; e < 8; ++e) f[e] = activate(Activation::silu, f[e]) * up[e];
  }

  TILELACE_DEVICE void add_bias(float (&f)[8], const void* of_columns, int col, bool both) const {
    const auto* bias = static_cast<const Element*>(of_columns);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int at = col + 8 * (e / 2) + 2 * (lane_ & 3) + (e & 1);
      const bool there = at < n() && (e < 2 || both);
      const float b = there ? static_cast<float>(bias[at]) : 0.0F;
      f[4 * (e / 2) + (e & 1)] += b;
      f[4 * (e / 2) + (e & 1) + 2] += b;
    }
  }

  /// Bias and activation of 2 rows x 2 x 2 columns.
  TILELACE_DEVICE void complete(float (&f)[8], int row, int col, bool both) const {
    if (p_.bias != nullptr) {
      if constexpr (Tile::swapped) {
        const auto* of_rows = static_cast<const Element*>(bias());
        const int first = row + 16 * warp_ + lane_ / 4;
        const float low = first < n() ? static_cast<float>(of_rows[first]) : 0.0F;
        const float high = first + 8 < n() ? static_cast<float>(of_rows[first + 8]) : 0.0F;
        f[0] += low, f[1] += low, f[4] += low, f[5] += low;
        f[2] += high, f[3] += high, f[6] += high, f[7] += high;
      } else {
        add_bias(f, bias(), col, both);
      }
    }
    if (p_.activation != Activation::none) activate(p_.activation, f);
  }

  /// Of the tile's weight.
  [[nodiscard]] TILELACE_DEVICE const void* bias() const {
    if constexpr (kMerges<Tile, Params>)
      if (p_.weights.count > 1) return p_.weights.bias[section_];
    return p_.bias;
  }
  [[nodiscard]] TILELACE_DEVICE int n() const {
    if constexpr (kMerges<Tile, Params>)
      if (p_.weights.count > 1) return p_.weights.n[section_];
    return p_.n;
  }

  const Params& p_;
  int section_, warp_, lane_;
};

}  // namespace tilelace::cuda
