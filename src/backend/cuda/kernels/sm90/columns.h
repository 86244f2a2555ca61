// SPDX-License-Identifier: Apache-2.0
// What makes the columns of a result: which weight is loaded for them, and how eight accumulators
// of a thread become results: bias and activation, or the gate. Eight are 2 rows x 2 x 2 columns
// from (row, col) on; `both`: the second two columns are there, too.
#pragma once
#include "backend/cuda/device/activation.h"
#include "backend/cuda/device/elements.h"
#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/kernels/sm90/shape.h"

namespace tilelace::cuda {

/// Adds what belongs to columns.
template <class Element>
TILELACE_DEVICE void add_column_bias(float (&f)[8], const void* bias, int n, int col, int lane,
                                     bool both) {
  const auto* of_columns = static_cast<const Element*>(bias);
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const int at = col + 8 * (e / 2) + 2 * (lane & 3) + (e & 1);
    const bool there = at < n && (e < 2 || both);
    const float b = there ? static_cast<float>(of_columns[at]) : 0.0F;
    f[4 * (e / 2) + (e & 1)] += b;
    f[4 * (e / 2) + (e & 1) + 2] += b;
  }
}
/// The same where a tile's rows are columns of the result.
template <class Element>
TILELACE_DEVICE void add_row_bias(float (&f)[8], const void* bias, int n, int first) {
  const auto* of_rows = static_cast<const Element*>(bias);
  const float low = first < n ? static_cast<float>(of_rows[first]) : 0.0F;
  const float high = first + 8 < n ? static_cast<float>(of_rows[first + 8]) : 0.0F;
  f[0] += low, f[1] += low, f[4] += low, f[5] += low;
  f[2] += high, f[3] += high, f[6] += high, f[7] += high;
}

/// Of one weight.
template <class Body, class Params>
class OneWeight {
  using Tile = typename Body::Tile;
  using Element = typename Body::Element;

 public:
  static constexpr int kWidth = Tile::width;  ///< columns of the result that a tile has

  // For the loading warp.
  static TILELACE_DEVICE void prefetch(const Params& /*p*/) {}
  static TILELACE_DEVICE int first_loaded(int first_col, int slice) { return first_col + slice; }
  static TILELACE_DEVICE const CUtensorMap* weight(const Params& p, int /*section*/) {
    return Tile::swapped ? &p.rows : &p.cols;
  }
  template <class Loader>
  static TILELACE_DEVICE void load(Loader& loader, const Params& /*p*/, const CUtensorMap* weight,
                                   int stage, int x, int row, int col) {
    Tile::swapped ? loader.load_rows(weight, stage, x, row)
                  : loader.load_cols(weight, stage, x, col);
  }

  // For those that multiply. `warp`: of the warpgroup.
  TILELACE_DEVICE OneWeight(const Params& p, int /*section*/, int warp, int lane)
      : p_(p), warp_(warp), lane_(lane) {}
  TILELACE_DEVICE void finish(float (&f)[8], const float* /*v*/, int row, int col,
                              bool both) const {
    complete(*this, f, row, col, both);
  }
  [[nodiscard]] TILELACE_DEVICE const void* bias() const { return p_.bias; }
  [[nodiscard]] TILELACE_DEVICE int n() const { return p_.n; }

 protected:
  template <class Weight>
  TILELACE_DEVICE void complete(const Weight& of, float (&f)[8], int row, int col,
                                bool both) const {
    if (p_.bias != nullptr) {
      if constexpr (Tile::swapped)
        add_row_bias<Element>(f, of.bias(), of.n(), row + 16 * warp_ + lane_ / 4);
      else
        add_column_bias<Element>(f, of.bias(), of.n(), col, lane_, both);
    }
    if (p_.activation != Activation::none) activate(p_.activation, f);
  }

  const Params& p_;
  int warp_, lane_;
};

/// Of several weights at once, a section each, where the tile has registers for it.
template <class Body, class Params>
class SectionWeights : public OneWeight<Body, Params> {
  using One = OneWeight<Body, Params>;
  static constexpr bool kSeveral = plan::can_merge(Body::Tile::blocks, Body::Tile::width);

 public:
  static TILELACE_DEVICE const CUtensorMap* weight(const Params& p, int section) {
    if constexpr (kSeveral)
      if (p.weights.count > 1 && section > 0) return p.weights.map + (section - 1);
    return One::weight(p, section);
  }

  TILELACE_DEVICE SectionWeights(const Params& p, int section, int warp, int lane)
      : One(p, section, warp, lane), section_(section) {}
  TILELACE_DEVICE void finish(float (&f)[8], const float* /*v*/, int row, int col,
                              bool both) const {
    this->complete(*this, f, row, col, both);
  }
  [[nodiscard]] TILELACE_DEVICE const void* bias() const {
    if constexpr (kSeveral)
      if (this->p_.weights.count > 1) return this->p_.weights.bias[section_];
    return this->p_.bias;
  }
  [[nodiscard]] TILELACE_DEVICE int n() const {
    if constexpr (kSeveral)
      if (this->p_.weights.count > 1) return this->p_.weights.n[section_];
    return this->p_.n;
  }

 private:
  int section_;
};

/// Two products in one: half of a tile's columns are gate's, half the same columns of up's, and
/// silu(gate + bias) * (up + bias) is the result.
template <class Body, class Params>
class GateAndUp {
  using Element = typename Body::Element;
  static constexpr int kUp = Body::Shape::kAccumulators / 2;  ///< up's, behind gate's

 public:
  static constexpr int kWidth = Body::Tile::width / 2;

  static TILELACE_DEVICE void prefetch(const Params& p) { ptx::prefetch_map(&p.up.map); }
  static TILELACE_DEVICE int first_loaded(int first_col, int /*slice*/) { return first_col; }
  static TILELACE_DEVICE const CUtensorMap* weight(const Params& p, int /*section*/) {
    return &p.cols;
  }
  template <class Loader>
  static TILELACE_DEVICE void load(Loader& loader, const Params& p, const CUtensorMap* /*weight*/,
                                   int stage, int x, int /*row*/, int col) {
    loader.load_both(&p.cols, &p.up.map, stage, x, col);
  }

  TILELACE_DEVICE GateAndUp(const Params& p, int /*section*/, int /*warp*/, int lane)
      : p_(p), lane_(lane) {}
  TILELACE_DEVICE void finish(float (&f)[8], const float* v, int /*row*/, int col,
                              bool both) const {
    float up[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) up[e] = e < 4 || both ? v[kUp + e] : 0.0F;
    if (p_.bias != nullptr) add_column_bias<Element>(f, p_.bias, p_.n, col, lane_, both);
    if (p_.up.bias != nullptr) add_column_bias<Element>(up, p_.up.bias, p_.n, col, lane_, both);
#pragma unroll
    for (int e = 0; e < 8; ++e) f[e] = activate(Activation::silu, f[e]) * up[e];
  }

 private:
  const Params& p_;
  int lane_;
};

}  // namespace tilelace::cuda
