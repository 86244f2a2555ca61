// SPDX-License-Identifier: Apache-2.0
// Default hooks, which add nothing to a GEMM (docs/kernels.md describes the hooks).
#pragma once
#include "backend/cuda/device/trace.h"
#include "backend/cuda/kernels/operands.h"
#include "schedule/gemm.h"

namespace tilelace::cuda {

/// One matrix, in which the results of a tile are stored.
struct OneResult {
  const CUtensorMap* whole;      ///< map for stores of 64 columns
  const CUtensorMap* remainder;  ///< map for stores of a tile's remaining columns
  TILELACE_DEVICE void before_chunk(std::uint32_t /*began*/, int /*chunk*/) const {}
  template <class Store>
  TILELACE_DEVICE void each(bool is_whole, const Store& store) const {
    store(is_whole ? whole : remainder);
  }
};

/// One matrix of several. Its number takes fewer registers than addresses of maps.
template <class Params>
struct NumberedResult {
  const Params& p;
  int number;
  TILELACE_DEVICE void before_chunk(std::uint32_t /*began*/, int /*chunk*/) const {}
  template <class Store>
  TILELACE_DEVICE void each(bool is_whole, const Store& store) const {
    store((is_whole ? p.out : p.out_remainder) + number);
  }
};

/// Hooks that add nothing to a GEMM.
template <class B>
struct PlainHooks {
  using Body = B;
  using Place = typename Body::Place;
  static constexpr int kLoadRegisters = Body::Shape::kLoadRegisters;

  /// Returns this CTA's part of the worker's tile; `cta_row`: the CTA's row in the cluster.
  static TILELACE_DEVICE CtaTile tile_of(const Place& place, schedule::GemmCell cell, int cta_row) {
    return {cell.row * Body::Tile::cluster_rows + cta_row,
            cell.col * Body::Tile::cluster_cols + place.col, cta_row, place.cta};
  }
  template <class Params>
  static TILELACE_DEVICE CtaTile enter(const Params& /*p*/, const Place& place,
                                       schedule::GemmCell& cell) {
    return tile_of(place, cell, place.row);
  }
  template <class Params>
  static TILELACE_DEVICE int steps_behind(const Params& /*p*/, schedule::GemmSegment /*s*/) {
    return 0;
  }
  static TILELACE_DEVICE void init(typename Body::Shared /*shared*/) {}
  /// For all threads that multiply, once the previous kernel has ended.
  template <class Params>
  static TILELACE_DEVICE void before_products(const Params& /*p*/) {}
  template <class Params>
  static TILELACE_DEVICE void spare_warp(const Params& /*p*/, typename Body::Shared /*shared*/,
                                         const Place& /*place*/, int /*warp*/) {}
  struct Tokens {
    TILELACE_DEVICE void begin() {}
    template <class Loader>
    TILELACE_DEVICE void behind(Loader& /*loader*/, schedule::GemmCell /*cell*/, int /*tile*/,
                                const CtaTile& /*at*/, int /*row*/, int /*col*/) {}
    template <class Loader>
    TILELACE_DEVICE void end(Loader& /*loader*/) {}
  };
  struct Finish {
    template <class Work, class Math>
    TILELACE_DEVICE void walk(const Work& work, int worker, int lane, int lanes, Math& math) {
      schedule::run_gemm_math(work, worker, lane, lanes, math);
    }
    TILELACE_DEVICE void multiplied(std::uint32_t /*began*/, bool /*more*/) {}
    template <class Math>
    TILELACE_DEVICE void last_tile(Math& /*math*/) {}
    TILELACE_DEVICE void end() {}
  };
};

}  // namespace tilelace::cuda
