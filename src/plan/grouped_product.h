// SPDX-License-Identifier: Apache-2.0
// Products grouped by expert (rows times their expert's weight), the shape of their tiles, and how
// a product is cut. Kernels, launches and predictions use this file. Which shapes there are, and
// which of them a product takes, is a row an architecture (plan/gemm/architecture_plans.h).
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "schedule/grouped_tiles.h"
#include "tilelace/dtype.h"

namespace tilelace::plan {

/// The most experts of one rank.
constexpr int kMostMoeExperts = 1024;

/// The shape of a tile. Its columns are up to `most` rows of x, shared by the `cluster` CTAs of a
/// cluster. Its rows are `weight_rows` rows of the weight per CTA (gated: half gate, half up).
struct GroupedShape {
  std::string_view name;
  std::string_view purpose;  ///< what the rule takes it for, in reasons of plans
  int most = 0;
  int weight_rows = 0;
  int cluster = 1;
  int stages = 0;
  int chunk_rows = 0;  ///< rows of the result that are staged at once
  /// Bytes of x in the row tiles that are walked together: about half of L2.
  std::int64_t walked_bytes = 20 << 20;

  /// Columns of the result in a cluster's tile.
  [[nodiscard]] constexpr int columns(bool gated) const {
    return (gated ? weight_rows / 2 : weight_rows) * cluster;
  }
  bool operator==(const GroupedShape&) const = default;
};

/// What the host knows about a product: everything but the routing.
struct GroupedProduct {
  std::int64_t rows = 0;  ///< the largest number of rows, summed over experts
  std::int64_t n = 0;     ///< rows of an expert's weight (gate and up together if gated)
  std::int64_t k = 0;
  std::int64_t experts = 0;
  bool gated = false;
  DType dtype{};

  [[nodiscard]] constexpr std::int64_t out_n() const { return gated ? n / 2 : n; }
  bool operator==(const GroupedProduct&) const = default;
};

/// How a product is cut into tiles of this shape.
constexpr schedule::GroupedTiles grouped_tiles(const GroupedProduct& p, const GroupedShape& shape) {
  const std::int64_t columns = shape.columns(p.gated);
  const std::int64_t tile_bytes = shape.most * p.k * static_cast<std::int64_t>(size_of(p.dtype));
  return {shape.most, static_cast<int>((p.out_n() + columns - 1) / columns),
          static_cast<int>(std::clamp<std::int64_t>(shape.walked_bytes / tile_bytes, 4, 64))};
}

/// Rows that a product in tiles of this shape computes for an expert with `rows` rows, padding
/// included.
constexpr int computed_rows(const GroupedShape& shape, int rows) {
  const schedule::GroupedTiles tiles{shape.most, 1, 1};
  int all = 0;
  for (int i = 0; i < tiles.tiles(rows); ++i) all += tiles.cell(rows, i).width;
  return all;
}

}  // namespace tilelace::plan
