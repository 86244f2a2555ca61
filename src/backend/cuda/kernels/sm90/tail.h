// SPDX-License-Identifier: Apache-2.0
// The tail of a matrix: a tile that reaches beyond the last token. Copying the whole tile would
// fill the rest with zeros, which takes longer than loading real rows (docs/decisions/0020). So the
// tail has a tensor map of its own, which loads little more than the real rows.
#pragma once
#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/kernels/sm90/ring.h"

namespace tilelace::cuda {

/// `left`: tokens from this CTA's first one to the end of the matrix.
template <class Tile>
struct Tail {
  using Shape = GemmShape<Tile>;

  /// The map to use: `all` for a whole slice, `tail` for a partial one, null beyond the matrix.
  static TILELACE_DEVICE const CUtensorMap* map(const CUtensorMap* all, const CUtensorMap* tail,
                                                int left) {
    const int loaded = Shape::tokens().loaded(left);
    if (loaded == Shape::tokens().slice) return all;
    return loaded > 0 ? tail : nullptr;
  }
  /// Bytes that all CTAs of the cluster together load into a stage of one CTA.
  static TILELACE_DEVICE int expected_bytes(const ClusterPlace<Tile>& place, int left) {
    const int before = Shape::tokens().begin(Tile::swapped ? place.row : place.col);
    return Shape::kExpectedBytes - 128 * Shape::tokens().missing(left + before);
  }
};

}  // namespace tilelace::cuda
