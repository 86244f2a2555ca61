// SPDX-License-Identifier: Apache-2.0
// GEMM + reduce-scatter and GEMM + all-reduce in one schedule. An all-reduce cuts the rows into
// blocks and splits each block over the ranks; owners also send finished rows to all ranks.
//
// A rank computes remote shards first and its own shard last. Partials for shard q are sent up q's
// tree (route.h); a rank with children in that tree adds their partials to its own partial in rank
// order. Slots are staging memory. Flags of a rank:
//   done(p, b, q, t)     p's tile t of shard q of block b is in p's outgoing slot (its result slot
//                        if p == q); the flag is at p (push) or at the reader (pull)
//   partial(p, b, q, c)  chunk c of p's partials is in this rank's incoming slot
//   result(b, q, c)      chunk c of the finished shard is in this rank's result slot
// With transport `store` a chunk is a tile, so c is the tile's index t. A gemm_rs with transport
// `store` that does not straddle has other flags (see numbered()).
#pragma once
#include "schedule/moves.h"
#include "schedule/route.h"
#include "schedule/rows.h"

namespace tilelace::schedule {

/// One tile of shard `owner` of block `block`. `index` is band * cols + col within the shard, or
/// the partial's index if numbered(). `owner` is -1 if the rows straddle shards (see piece()).
struct ReduceTile {
  int block = 0;
  int owner = 0;
  Index index = 0;
  RowRange rows;
  Index col = 0;
};

/// A transfer of one chunk of shard `owner` between this rank and `peer`.
struct ReduceTransfer {
  int block = 0;
  int owner = 0;
  int peer = 0;
  Index chunk = 0;
  RowRange rows;
};

struct GemmReduce {
  Route route;
  RowSplit split;  ///< gemm_rs: the shards; gemm_ar: only m and ranks are used
  int rank = 0;
  int workers = 1;
  int tile_m = 128;
  Index cols = 1;
  Index chunk_rows = 128;
  Index raster_group = 1;
  int blocks = 1;
  Index block_grain = 1;  ///< number of rows of each block but the last is a multiple of this
  Transport transport = {};
  bool straddle = false;  ///< only with one block, mesh and no all_reduce
  bool all_reduce = false;

  [[nodiscard]] TILELACE_HD constexpr int ranks() const { return route.ranks; }

  /// Rows of block b. Every block but the last has two units of rows; a unit is a multiple of
  /// block_grain. The last block has the rest, about one unit if m allows and at most two.
  [[nodiscard]] TILELACE_HD constexpr RowRange block_rows(int b) const {
    const Index share = split.m / (2 * blocks - 1);
    Index unit = max_of(1, share / block_grain) * block_grain;
    if (split.m > 2 * blocks * unit) unit += block_grain;
    return {min_of(2 * b * unit, split.m),
            b == blocks - 1 ? split.m : min_of(2 * (b + 1) * unit, split.m)};
  }
  [[nodiscard]] TILELACE_HD constexpr RowRange shard(int b, int q) const {
    if (!all_reduce) return split.shard(q);
    const RowRange rows = block_rows(b);
    const RowSplit inner{rows.size(), ranks(), nullptr};
    return {rows.begin + inner.begin(q), rows.begin + inner.begin(q + 1)};
  }
  [[nodiscard]] TILELACE_HD constexpr Bands bands(int b, int q) const {
    return {shard(b, q), split.m, tile_m, straddle};
  }
  [[nodiscard]] TILELACE_HD constexpr Chunks chunks(int b, int q) const {
    return {shard(b, q), chunk_rows};
  }
  [[nodiscard]] TILELACE_HD constexpr Index max_shard_rows() const {
    if (!all_reduce) return split.max_rows();
    Index most = 0;
    for (int b = 0; b < blocks; ++b) most = max_of(most, ceil_div(block_rows(b).size(), ranks()));
    return most;
  }
  [[nodiscard]] TILELACE_HD constexpr Index max_tiles() const {
    return (ceil_div(max_shard_rows(), tile_m) + (straddle ? 1 : 0)) * cols;
  }
  [[nodiscard]] TILELACE_HD constexpr Index max_chunks() const {
    if (by_workers(transport)) return max_tiles();
    return ceil_div(max_shard_rows(), chunk_rows);
  }

  [[nodiscard]] TILELACE_HD constexpr Index done(int p, int b, int q, Index t) const {
    return ((p * blocks + b) * ranks() + q) * max_tiles() + t;
  }
  [[nodiscard]] TILELACE_HD constexpr Index partial(int p, int b, int q, Index c) const {
    return done(ranks(), 0, 0, 0) + ((p * blocks + b) * ranks() + q) * max_chunks() + c;
  }
  [[nodiscard]] TILELACE_HD constexpr Index result(int b, int q, Index c) const {
    return partial(ranks(), 0, 0, 0) + (b * ranks() + q) * max_chunks() + c;
  }
  [[nodiscard]] TILELACE_HD constexpr Index num_flags() const { return result(blocks, 0, 0); }

  /// The row of the incoming slot that holds child p's partials for this row of shard q. Mesh: an
  /// area for own rows from each rank. Ring: an area for all rows. Two-level: an area for all rows
  /// from each local rank, then an area for own rows from each node.
  [[nodiscard]] TILELACE_HD constexpr Index incoming_row(int p, int b, int q, Index row) const {
    const Index own = own_row(b, q, row);
    if (route.kind == RouteKind::mesh) return p * max_own_rows() + own;
    if (route.kind == RouteKind::ring) return row;
    if (route.node(p) == route.node(rank)) return route.lane(p) * split.m + row;
    return route.local * split.m + route.node(p) * max_own_rows() + own;
  }
  [[nodiscard]] TILELACE_HD constexpr Index incoming_rows() const {
    if (route.kind == RouteKind::mesh) return ranks() * max_own_rows();
    if (route.kind == RouteKind::ring) return split.m;
    return route.local * split.m + route.nodes() * max_own_rows();
  }
  [[nodiscard]] TILELACE_HD constexpr Index max_own_rows() const {
    return all_reduce ? blocks * max_shard_rows() : max_shard_rows();
  }
  [[nodiscard]] TILELACE_HD constexpr Index own_row(int b, int q, Index row) const {
    return b * max_shard_rows() + row - shard(b, q).begin;
  }

  [[nodiscard]] TILELACE_HD constexpr Index num_straddling() const {
    if (!straddle) return 0;
    Index whole = 0;
    for (int q = 0; q < ranks(); ++q) whole += bands(0, q).whole().size();
    return ceil_div(split.m, tile_m) - whole;
  }
  [[nodiscard]] TILELACE_HD constexpr RowRange straddling(Index i) const {
    return straddling_band(split, tile_m, i);
  }
  [[nodiscard]] TILELACE_HD constexpr ReduceTile straddling_tile(Index i) const {
    return {0, -1, i, straddling(i / cols), i % cols};
  }
  /// The part of a straddling tile that belongs to shard q; it may have no rows.
  [[nodiscard]] TILELACE_HD constexpr ReduceTile piece(const ReduceTile& t, int q) const {
    const RowRange rows = intersect(t.rows, shard(0, q));
    const Index band = rows.size() > 0 ? bands(0, q).band_of(rows.begin) : 0;
    return {0, q, band * cols + t.col, rows, t.col};
  }

  /// Whether tiles follow a ReduceOrder (reduce_tiles.h), as in kernels of gemm_rs. If not, tiles
  /// follow tile(i), an order that no kernel has.
  [[nodiscard]] TILELACE_HD constexpr bool walked() const { return !all_reduce && !straddle; }
  /// Whether the number of a partial's flag is the index that ReduceOrder gives to the partial.
  [[nodiscard]] TILELACE_HD constexpr bool numbered() const {
    return walked() && by_workers(transport);
  }

  /// Number of tiles of all shards, without straddling tiles.
  [[nodiscard]] TILELACE_HD constexpr Index num_tiles() const {
    Index n = 0;
    for (int b = 0; b < blocks; ++b) {
      for (int q = 0; q < ranks(); ++q) n += bands(b, q).whole().size() * cols;
    }
    return n;
  }
  /// Shards are visited in segments. Segment b has the first remote shard of block b, the own shard
  /// of block b - 1, then the other remote shards of block b. So the peers' partials for the own
  /// shard can arrive before its visit, and its results are sent while block b is computed. Segment
  /// `blocks` has only the own shard of the last block.
  struct Visit {
    int block = 0;
    int owner = -1;  ///< -1: no shard, skip this visit
  };
  [[nodiscard]] TILELACE_HD constexpr int visits() const { return ranks() > 2 ? ranks() : 2; }
  [[nodiscard]] TILELACE_HD constexpr Visit visit(int segment, int j) const {
    if (j == 1) return {segment - 1, segment > 0 ? rank : -1};
    const int remote = j == 0 ? 0 : j - 1;
    const bool there = segment < blocks && remote < ranks() - 1;
    return {segment, there ? route.reduce_order(rank, remote) : -1};
  }
  [[nodiscard]] TILELACE_HD constexpr Index segment_tiles(int segment) const {
    Index n = 0;
    for (int j = 0; j < visits(); ++j) {
      const Visit at = visit(segment, j);
      if (at.owner >= 0) n += bands(at.block, at.owner).whole().size() * cols;
    }
    return n;
  }

  /// The i-th tile if !walked(), without straddling tiles.
  [[nodiscard]] TILELACE_HD constexpr ReduceTile tile(Index i) const {
    for (int segment = 0; segment <= blocks; ++segment) {
      for (int j = 0; j < visits(); ++j) {
        const Visit at = visit(segment, j);
        if (at.owner < 0) continue;
        const Bands shard_bands = bands(at.block, at.owner);
        const RowRange whole = shard_bands.whole();
        if (i < whole.size() * cols) {
          const Raster::Cell c = Raster{whole.size(), cols, raster_group}.cell(i);
          const Index band = whole.begin + c.band;
          return {at.block, at.owner, band * cols + c.col, shard_bands.rows(band), c.col};
        }
        i -= whole.size() * cols;
      }
    }
    return {};
  }
};

}  // namespace tilelace::schedule
