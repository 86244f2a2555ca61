// SPDX-License-Identifier: Apache-2.0
// Tiles of the sm_90a kernel for products grouped by expert (rows times their expert's weight): the
// shapes of tiles, which shape a product takes, and how a product is cut. The choice depends only
// on sizes and is correct for every routing. Kernels, launches and predictions use this file.
#pragma once
#include <algorithm>
#include <cstdint>

#include "schedule/grouped_tiles.h"
#include "tilelace/dtype.h"

namespace tilelace::plan {

/// The most experts of one rank.
constexpr int kMostMoeExperts = 1024;

/// The kinds of tiles. `few`: for few rows per expert. `many`: for more rows. `brief`: for more
/// rows and a short k, whose stores take more time than its products; stages more results.
enum class GroupedTiling : std::uint8_t { few, many, brief };
inline constexpr GroupedTiling kGroupedTilings[] = {GroupedTiling::few, GroupedTiling::many,
                                                    GroupedTiling::brief};

/// The shape of a tile. Its columns are up to `most` rows of x, shared by the `cluster` CTAs of a
/// cluster. Its rows are `weight_rows` rows of the weight per CTA (gated: half gate, half up). The
/// two warpgroups ping-pong, each with its own tile.
struct GroupedShape {
  const char* name;
  int most;
  int weight_rows;
  int cluster;
  int stages;
  int chunk_rows;  ///< rows of the result that a warpgroup stages at once

  /// Columns of the result in a cluster's tile.
  [[nodiscard]] constexpr int columns(bool gated) const {
    return (gated ? weight_rows / 2 : weight_rows) * cluster;
  }
};
/// The shapes, in the order of GroupedTiling.
inline constexpr GroupedShape kGroupedShapes[] = {
    {"few", 64, 128, 1, 8, 32}, {"many", 192, 128, 2, 5, 32}, {"brief", 192, 128, 2, 4, 96}};
/// The most eights of rows that a CTA loads of a tile, and that a warpgroup stores at once.
constexpr int row_maps(const GroupedShape& shape) { return shape.most / 8 / shape.cluster; }
constexpr int result_maps(const GroupedShape& shape) { return shape.chunk_rows / 8; }
constexpr const GroupedShape& shape_of(GroupedTiling tiling) {
  return kGroupedShapes[static_cast<int>(tiling)];
}

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

/// Chooses the kind of tiles for a product.
constexpr GroupedTiling grouped_tiling(const GroupedProduct& p) {
  constexpr std::int64_t kFewRows = 24;  // in rows of x per expert
  constexpr std::int64_t kShort = 512;   // of k
  if (p.rows <= kFewRows * p.experts) return GroupedTiling::few;
  return !p.gated && p.k <= kShort ? GroupedTiling::brief : GroupedTiling::many;
}

/// What a kind of tiles is for, as text.
constexpr const char* reason_of(GroupedTiling tiling) {
  switch (tiling) {
    case GroupedTiling::few: return "few rows per expert, which narrow tiles pad less";
    case GroupedTiling::brief: return "more rows per expert, a short k, whose stores count most";
    case GroupedTiling::many: break;
  }
  return "more rows per expert; stores overlap with products";
}

/// How a product is cut into tiles of this kind.
constexpr schedule::GroupedTiles grouped_tiles(const GroupedProduct& p, GroupedTiling tiling) {
  /// Bytes of activations in the row tiles that are walked together: about half of L2.
  constexpr std::int64_t kWalkedBytes = 20 << 20;
  const GroupedShape& shape = shape_of(tiling);
  const std::int64_t columns = shape.columns(p.gated);
  const std::int64_t tile_bytes = shape.most * p.k * static_cast<std::int64_t>(size_of(p.dtype));
  return {shape.most, static_cast<int>((p.out_n() + columns - 1) / columns),
          static_cast<int>(std::clamp<std::int64_t>(kWalkedBytes / tile_bytes, 4, 64))};
}

/// Rows that a product with this tiling computes for an expert with `rows` rows, padding
/// included.
constexpr int computed_rows(GroupedTiling tiling, int rows) {
  const schedule::GroupedTiles tiles{shape_of(tiling).most, 1, 1};
  int all = 0;
  for (int i = 0; i < tiles.tiles(rows); ++i) all += tiles.cell(rows, i).width;
  return all;
}

}  // namespace tilelace::plan
