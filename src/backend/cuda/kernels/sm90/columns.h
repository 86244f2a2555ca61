// SPDX-License-Identifier: Apache-2.0
// The columns of a result: which weight they need, and how a thread's accumulators become results
// (bias and activation, or the gate). In every eight columns a thread has four accumulators, in two
// adjacent columns and in two rows that are eight apart.
#pragma once
#include "backend/cuda/device/activation.h"
#include "backend/cuda/device/elements.h"
#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/kernels/sm90/shape.h"

namespace tilelace::cuda {

/// Adds each column's bias to kCols columns from `col` on.
template <class Element, int kCols>
TILELACE_DEVICE void add_column_bias(float* f, const void* bias, int n, int col, int lane) {
  const auto* const two = static_cast<const std::uint32_t*>(bias) + col / 2 + (lane & 3);
#pragma unroll
  for (int e = 0; e < kCols / 2; e += 4) {
    const float2 b = unpack(col + 2 * e < n ? two[e] : 0U, Element{});
    f[e] += b.x, f[e + 1] += b.y, f[e + 2] += b.x, f[e + 3] += b.y;
  }
}
/// The same if rows of the tile are columns of the result.
template <class Element, int kCols>
TILELACE_DEVICE void add_row_bias(float* f, const void* bias, int n, int first) {
  const auto* of_rows = static_cast<const Element*>(bias);
  const float low = first < n ? static_cast<float>(of_rows[first]) : 0.0F;
  const float high = first + 8 < n ? static_cast<float>(of_rows[first + 8]) : 0.0F;
#pragma unroll
  for (int e = 0; e < kCols / 2; ++e) f[e] += (e & 2) != 0 ? high : low;
}

/// The columns of a result that has one weight. In all functions `weight` is a weight's index.
template <class Body, class Params>
class OneWeight {
  using Tile = typename Body::Tile;
  using Element = typename Body::Element;

 public:
  static constexpr int kWidth = Tile::width;  ///< columns of a tile that are stored
  static constexpr int kRowBlocks = 1;        ///< blocks of a tile that make one of the result

  // For the loading warp.
  static TILELACE_DEVICE void prefetch(const Params& /*p*/) {}
  static TILELACE_DEVICE int first_loaded(int first_col, int slice) { return first_col + slice; }
  static TILELACE_DEVICE const CUtensorMap* map(const Params& p, int /*weight*/) {
    return Tile::swapped ? &p.rows : &p.cols;
  }
  template <class Loader>
  static TILELACE_DEVICE void load(Loader& loader, const Params& /*p*/, const CUtensorMap* weight,
                                   int stage, int x, int row, int col) {
    Tile::swapped ? loader.load_rows(weight, stage, x, row)
                  : loader.load_cols(weight, stage, x, col);
  }

  // For the groups that multiply. `warp`: index in the warpgroup.
  TILELACE_DEVICE OneWeight(const Params& p, int /*weight*/, int warp, int lane)
      : p_(p), warp_(warp), lane_(lane) {}
  /// Applies bias and activation to kCols columns, in place.
  template <int kCols>
  TILELACE_DEVICE void complete(float* f, int row, int col) const {
    complete_with<kCols>(*this, f, row, col);
  }
  /// GateAndUp combines eight gates with their ups in `v`; one weight has nothing to combine.
  TILELACE_DEVICE void combine(float (&/*f*/)[8], const float* /*v*/, bool /*both*/) const {}
  [[nodiscard]] TILELACE_DEVICE const void* bias() const { return p_.bias; }
  [[nodiscard]] TILELACE_DEVICE int n() const { return p_.n; }

 protected:
  template <int kCols, class Weight>
  TILELACE_DEVICE void complete_with(const Weight& of, float* f, int row, int col) const {
    if (p_.bias != nullptr) {
      if constexpr (Tile::swapped)
        add_row_bias<Element, kCols>(f, of.bias(), of.n(), row + 16 * warp_ + lane_ / 4);
      else
        add_column_bias<Element, kCols>(f, of.bias(), of.n(), col, lane_);
    }
    if (p_.activation != Activation::none) activate<kCols / 2>(p_.activation, f);
  }

  const Params& p_;
  int warp_, lane_;
};

/// For several weights. Tiles with too few registers support only one weight.
template <class Body, class Params>
class SeveralWeights : public OneWeight<Body, Params> {
  using One = OneWeight<Body, Params>;
  static constexpr bool kSeveral = plan::can_merge(Body::Tile::blocks, Body::Tile::width);

 public:
  /// Which weight has this tile, counted along columns of the result. Makes `tile` count from the
  /// weight's first one.
  static TILELACE_DEVICE int enter(const Params& p, int& tile) {
    int weight = 0;
    if constexpr (kSeveral) {
#pragma unroll
      for (int i = 1; i < plan::kMostWeights; ++i) weight += tile >= p.weights.first[i] ? 1 : 0;
      if (weight > 0) tile -= p.weights.first[weight];
    }
    return weight;
  }
  static TILELACE_DEVICE const CUtensorMap* map(const Params& p, int weight) {
    if constexpr (kSeveral)
      if (weight > 0) return p.weights.map + (weight - 1);
    return One::map(p, weight);
  }

  TILELACE_DEVICE SeveralWeights(const Params& p, int weight, int warp, int lane)
      : One(p, weight, warp, lane), weight_(weight) {}
  template <int kCols>
  TILELACE_DEVICE void complete(float* f, int row, int col) const {
    this->template complete_with<kCols>(*this, f, row, col);
  }
  [[nodiscard]] TILELACE_DEVICE const void* bias() const {
    if constexpr (kSeveral)
      return this->p_.weights.bias[weight_];
    else
      return this->p_.bias;
  }
  [[nodiscard]] TILELACE_DEVICE int n() const {
    if constexpr (kSeveral)
      return this->p_.weights.n[weight_];
    else
      return this->p_.n;
  }

 private:
  int weight_;
};

/// Two GEMMs in one. Half of a tile's columns are columns of the gate; the other half are the same
/// columns of up. In swapped tiles the first of a group's two blocks has rows of the gate's weight,
/// the second one the same rows of up's. The result is silu(gate + bias) * (up + bias).
template <class Body, class Params>
class GateAndUp {
  using Tile = typename Body::Tile;
  using Element = typename Body::Element;
  static_assert(!Tile::swapped || Tile::blocks == 2);
  /// Index of up's accumulator behind that of the gate.
  static constexpr int kUp = Body::Shape::kAccumulators / (Tile::swapped ? 1 : 2);

 public:
  static constexpr int kWidth = Tile::swapped ? Tile::width : Tile::width / 2;
  static constexpr int kRowBlocks = Tile::swapped ? 2 : 1;

  static TILELACE_DEVICE void prefetch(const Params& p) { ptx::prefetch_map(&p.up.map); }
  static TILELACE_DEVICE int enter(const Params& /*p*/, int& /*tile*/) { return 0; }
  static TILELACE_DEVICE int first_loaded(int first_col, int slice) {
    return Tile::swapped ? first_col + slice : first_col;
  }
  static TILELACE_DEVICE const CUtensorMap* map(const Params& p, int /*weight*/) {
    return Tile::swapped ? &p.rows : &p.cols;
  }
  template <class Loader>
  static TILELACE_DEVICE void load(Loader& loader, const Params& p, const CUtensorMap* weight,
                                   int stage, int x, int row, int col) {
    if constexpr (Tile::swapped)
      loader.load_both_rows(weight, &p.up.map, stage, x, row / 2);
    else
      loader.load_both_cols(weight, &p.up.map, stage, x, col);
  }

  TILELACE_DEVICE GateAndUp(const Params& p, int /*weight*/, int warp, int lane)
      : p_(p), warp_(warp), lane_(lane) {}
  template <int kCols>
  TILELACE_DEVICE void complete(float* f, int row, int col) const {
    add_bias<kCols>(f, p_.bias, row, col);
    add_bias<kCols>(f + kUp, p_.up.bias, row, col);
  }
  TILELACE_DEVICE void combine(float (&f)[8], const float* v, bool both) const {
#pragma unroll
    for (int e = 0; e < 8; ++e)
      f[e] = activate(Activation::silu, f[e]) * (e < 4 || both ? v[kUp + e] : 0.0F);
  }

 private:
  template <int kCols>
  TILELACE_DEVICE void add_bias(float* f, const void* bias, int row, int col) const {
    if (bias == nullptr) return;
    if constexpr (Tile::swapped)
      add_row_bias<Element, kCols>(f, bias, p_.n, row + 16 * warp_ + lane_ / 4);
    else
      add_column_bias<Element, kCols>(f, bias, p_.n, col, lane_);
  }

  const Params& p_;
  int warp_, lane_;
};

}  // namespace tilelace::cuda
