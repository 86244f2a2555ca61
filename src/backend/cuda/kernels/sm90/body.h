// SPDX-License-Identifier: Apache-2.0
// What sm_90a provides to an op's policy: the tile, the element type, and the parts that policies
// are made of (docs/kernels.md).
#pragma once
#include "backend/cuda/kernels/sm90/columns.h"
#include "backend/cuda/kernels/sm90/ring.h"
#include "backend/cuda/kernels/sm90/tail.h"

namespace tilelace::cuda {

template <class T, class E>
struct Sm90 {
  using Tile = T;
  using Element = E;
  using Shape = GemmShape<Tile>;
  using Shared = GemmShared<Tile>;
  using Place = ClusterPlace<Tile>;
  using Tail = cuda::Tail<Tile>;
  using Partial = PartialShape<Tile>;
  template <class Params>
  using OneWeight = cuda::OneWeight<Sm90, Params>;
  template <class Params>
  using SeveralWeights = cuda::SeveralWeights<Sm90, Params>;
  template <class Params>
  using GateAndUp = cuda::GateAndUp<Sm90, Params>;
  /// Whether tokens are columns of the tile, although they are rows in the op's order.
  static constexpr bool kAcross = plan::is_across(Tile::width, Tile::swapped);
  static constexpr int kGroupBarrier = cuda::kGroupBarrier;
  /// Tokens that one CTA loads.
  static constexpr int kTokenSlice = Tile::swapped ? Shape::kColSlice : Shape::kRowSlice;

  /// The operand whose rows are tokens.
  template <class Params>
  static TILELACE_DEVICE const CUtensorMap* tokens(const Params& p) {
    return Tile::swapped ? &p.cols : &p.rows;
  }
  /// Adds the residual to a group's sum, whose first value is at (row, col) of this rank's rows.
  /// Defined in residual.h.
  template <class Params, class Math>
  static TILELACE_DEVICE void add_residual(const Params& p, Math& math, int row, int col);
};

}  // namespace tilelace::cuda
