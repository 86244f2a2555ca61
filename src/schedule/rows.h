// SPDX-License-Identifier: Apache-2.0
// How rows are cut: into shards (one per rank), bands (one row of tiles) and chunks (one transfer).
#pragma once
#include "schedule/index.h"

namespace tilelace::schedule {

/// Rows [begin, end).
struct RowRange {
  Index begin = 0;
  Index end = 0;
  [[nodiscard]] TILELACE_HD constexpr Index size() const { return end - begin; }
  bool operator==(const RowRange&) const = default;
};

TILELACE_HD constexpr RowRange intersect(RowRange a, RowRange b) {
  const RowRange r{max_of(a.begin, b.begin), min_of(a.end, b.end)};
  return r.end > r.begin ? r : RowRange{r.begin, r.begin};
}

/// m rows split into a shard per rank. Shard r begins at borders[r]; no borders: an even split.
struct RowSplit {
  Index m = 0;
  int ranks = 1;
  const Index* borders = nullptr;

  [[nodiscard]] TILELACE_HD constexpr Index begin(int rank) const {
    if (borders != nullptr) return borders[rank];
    return rank * (m / ranks) + min_of(rank, m % ranks);
  }
  [[nodiscard]] TILELACE_HD constexpr RowRange shard(int rank) const {
    return {begin(rank), begin(rank + 1)};
  }
  [[nodiscard]] TILELACE_HD constexpr Index max_rows() const {
    if (borders == nullptr) return ceil_div(m, ranks);
    Index most = 0;
    for (int r = 0; r < ranks; ++r) most = max_of(most, shard(r).size());
    return most;
  }
};

/// The i-th band of the global grid (see Bands) that lies in several shards; empty: no such band.
TILELACE_HD constexpr RowRange straddling_band(const RowSplit& split, int tile_m, Index i) {
  Index last = -1;
  for (int q = 1; q < split.ranks; ++q) {
    const Index border = split.begin(q);
    const Index band = border / tile_m;
    if (border % tile_m == 0 || border == split.m || band == last) continue;
    last = band;
    if (i-- == 0) return {band * tile_m, min_of((band + 1) * tile_m, split.m)};
  }
  return {};
}

/// The bands of one shard. On a local grid they start at the shard's first row. On a global grid
/// (straddling tiles) they start at multiples of tile_m, so a shard's first and last band may be
/// parts of tiles that other shards share.
struct Bands {
  RowRange shard;
  Index m = 0;  ///< rows of all shards together
  int tile_m = 1;
  bool global = false;

  [[nodiscard]] TILELACE_HD constexpr Index origin() const {
    return global ? shard.begin / tile_m * tile_m : shard.begin;
  }
  [[nodiscard]] TILELACE_HD constexpr Index count() const {
    return shard.size() > 0 ? ceil_div(shard.end - origin(), tile_m) : 0;
  }
  /// The rows of band j that belong to the shard.
  [[nodiscard]] TILELACE_HD constexpr RowRange rows(Index j) const {
    const Index begin = origin() + j * tile_m;
    return intersect({begin, begin + tile_m}, shard);
  }
  /// The band that contains this row of the shard.
  [[nodiscard]] TILELACE_HD constexpr Index band_of(Index row) const {
    return (row - origin()) / tile_m;
  }
  /// Bands [begin, end) whose tiles lie in this shard alone.
  [[nodiscard]] TILELACE_HD constexpr RowRange whole() const {
    if (!global || shard.size() == 0) return {0, count()};
    const Index lo = shard.begin == origin() ? 0 : 1;
    const bool cut = shard.end % tile_m != 0 && shard.end != m;
    return {lo, max_of(lo, count() - (cut ? 1 : 0))};
  }
};

/// The chunks of one shard. Each chunk has chunk_rows rows; the last chunk has the rest.
struct Chunks {
  RowRange shard;
  Index chunk_rows = 1;

  [[nodiscard]] TILELACE_HD constexpr Index count() const {
    return ceil_div(shard.size(), chunk_rows);
  }
  [[nodiscard]] TILELACE_HD constexpr RowRange rows(Index c) const {
    const Index begin = shard.begin + c * chunk_rows;
    return {begin, min_of(begin + chunk_rows, shard.end)};
  }
  [[nodiscard]] TILELACE_HD constexpr Index chunk_of(Index row) const {
    return (row - shard.begin) / chunk_rows;
  }
};

/// Walks bands x columns in groups of bands. Within a group, columns are the outer loop, so that
/// several bands use a column panel of the weight while it is in cache.
struct Raster {
  Index bands = 0;
  Index cols = 1;
  Index group = 1;

  struct Cell {
    Index band, col;
  };
  [[nodiscard]] TILELACE_HD constexpr Cell cell(Index t) const {
    const Index g = t / (group * cols);
    const Index left = t - g * group * cols;
    const Index height = min_of(group, bands - g * group);
    return {g * group + left % height, left / height};
  }
};

}  // namespace tilelace::schedule
