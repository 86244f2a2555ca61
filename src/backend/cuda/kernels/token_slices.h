// SPDX-License-Identifier: Apache-2.0
// Which tokens of a tile its CTAs load. A copy that reaches beyond the matrix fills the rest with
// zeros, which takes longer than loading real rows (docs/decisions/0020). So the last tile loads
// little more than the real rows. Its other rows keep old data, and their results are not stored.
#pragma once
#include "core/host_device.h"

namespace tilelace::cuda {

/// Slices of a tile's tokens, one per CTA that shares the tile, each a multiple of eight tokens. If
/// the slices exceed the tile, the last one begins earlier and overlaps the previous slice.
struct TokenSlices {
  int tokens;  ///< number of tokens of the tile
  int slice;   ///< number of tokens of a slice
  int count;

  [[nodiscard]] TILELACE_HD constexpr int begin(int i) const {
    return i * slice < tokens - slice ? i * slice : tokens - slice;
  }
  /// Number of tokens of a slice to load if `left` tokens exist from the slice's first token on. It
  /// is a multiple of eight, as the layout of shared memory needs.
  [[nodiscard]] TILELACE_HD constexpr int loaded(int left) const {
    const int eights = (left + 7) / 8 * 8;
    return left <= 0 ? 0 : eights < slice ? eights : slice;
  }
  /// Number of tokens, in all slices, that are not loaded if only `left` tokens of the tile exist.
  [[nodiscard]] TILELACE_HD constexpr int missing(int left) const {
    int n = 0;
    for (int i = 0; i < count; ++i) n += slice - loaded(left - begin(i));
    return n;
  }
  /// Number of tokens to load in the partial slice of a matrix of `all` tokens; 0: none is partial.
  [[nodiscard]] constexpr int partial(long long all) const {
    for (int i = 0; i < count; ++i) {
      const int n = loaded(static_cast<int>(all % tokens) - begin(i));
      if (n > 0 && n < slice) return n;
    }
    return 0;
  }
};

}  // namespace tilelace::cuda
