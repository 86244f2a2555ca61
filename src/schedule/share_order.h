// SPDX-License-Identifier: Apache-2.0
// A fused gemm_ar as a GEMM kernel walks it. Every shard is cut into the same number of blocks; the
// blocks of all shards follow each other, column by column. A step is one column of one block: its
// remote tiles, and behind them the own tiles of the column `lag` steps before. By then the peers'
// terms for those have arrived; what they send to all ranks spreads over the whole call, and little
// is left to send when the last product ends. Worked out on the host into 32-bit numbers.
//
// Or, where a shard would have fewer rows than tiles, every owner has some columns of all rows: one
// block, whose steps are a column of each owner.
//
// No rank waits for ever: own tiles of step g need peers' remote tiles of step g - lag only, and
// everybody takes tiles in the order of steps.
#pragma once
#include "schedule/gemm.h"
#include "schedule/route.h"
#include "schedule/rows.h"
#include "schedule/section_order.h"

namespace tilelace::schedule {

constexpr int kMaxShareBlocks = 8;
constexpr int kMaxShareSections = kMaxGpuRanks * kMaxShareBlocks;

/// Steps that have equally many tiles.
struct ShareStretch {
  int first_tile = 0, first_step = 0;
  int block = 0, own_block = 0;   ///< of remote and of own tiles
  int remote_rows = 0, rows = 0;  ///< of tiles a step: remote ones, all
};

struct ShareOrder {
  static constexpr bool kInRounds = true;
  int rank = 0, ranks = 1, blocks = 1;
  int cols = 1;                          ///< columns of tiles of a shard
  int owner_cols = 0;                    ///< the same where owners have columns of all rows; else 0
  int lag = 0;                           ///< steps
  int own_begin = 0;                     ///< first row of the own shard
  int max_tiles = 1;                     ///< of a section
  int count = 0;                         ///< sections
  OwnedRows section[kMaxShareSections];  ///< of a block: remote ones, then the own
  int tile_rows[kMaxShareSections] = {};
  int stretches = 0;
  ShareStretch stretch[2 * kMaxShareBlocks + 3];

  [[nodiscard]] TILELACE_HD constexpr int tiles() const { return stretch[stretches].first_tile; }
  [[nodiscard]] TILELACE_HD constexpr bool own(int s) const { return section[s].owner == rank; }
  [[nodiscard]] TILELACE_HD constexpr int begin(int s) const { return section[s].begin; }
  [[nodiscard]] TILELACE_HD constexpr int end(int s) const { return section[s].end; }
  [[nodiscard]] TILELACE_HD constexpr int block(int s) const { return s / ranks; }
  /// Column of tiles of the result at which a section's columns begin.
  [[nodiscard]] TILELACE_HD constexpr int first_col(int s) const {
    return section[s].owner * owner_cols;
  }

  [[nodiscard]] TILELACE_HD constexpr GemmCell cell(int t) const {
    const ShareStretch& at = stretch[stretch_of(t)];
    const int step = (t - at.first_tile) / at.rows;
    int row = t - at.first_tile - step * at.rows;
    const bool mine = row >= at.remote_rows;
    const int block = mine ? at.own_block : at.block;
    int s = block * ranks;
    if (mine) {
      s += ranks - 1;
      row -= at.remote_rows;
    } else {
      while (row >= tile_rows[s]) row -= tile_rows[s++];
    }
    const int col = at.first_step + step - (mine ? lag : 0) - block * cols;
    // Back and forth: the weights that the last block used last are still near.
    return {row, walked(block, col), s};
  }
  [[nodiscard]] TILELACE_HD constexpr bool own_tile(int t) const {
    const ShareStretch& at = stretch[stretch_of(t)];
    return (t - at.first_tile) % at.rows >= at.remote_rows;
  }

  /// Number of a partial among all that its owner receives: from `source`, for a tile of section s.
  /// Also of a finished tile among all that a rank receives: from its owner.
  [[nodiscard]] TILELACE_HD constexpr int partial(int source, GemmCell c) const {
    return first_partial(source, c.section) + c.col * tile_rows[c.section] + c.row;
  }
  [[nodiscard]] TILELACE_HD constexpr int first_partial(int source, int s) const {
    return (source * blocks + block(s)) * max_tiles;
  }
  [[nodiscard]] TILELACE_HD constexpr int num_partials() const {
    return ranks * blocks * max_tiles;
  }

 private:
  /// Columns of odd blocks are walked from the last one on.
  [[nodiscard]] TILELACE_HD constexpr int walked(int block, int col) const {
    return (block & 1) != 0 ? cols - 1 - col : col;
  }
  [[nodiscard]] TILELACE_HD constexpr int stretch_of(int t) const {
    int i = 0;
    while (t >= stretch[i + 1].first_tile) ++i;
    return i;
  }
};

namespace detail {

/// Of the j-th section of a block: remote ones, then the own.
constexpr int owner_of(const ShareOrder& o, const Route& route, int j) {
  return j + 1 < o.ranks ? route.reduce_order(o.rank, j) : o.rank;
}

constexpr void fill_sections(ShareOrder& o, const RowSplit& split, const Route& route,
                             int worker_rows, Index block_rows) {
  for (int b = 0; b < o.blocks; ++b) {
    for (int j = 0; j < o.ranks; ++j) {
      const int owner = owner_of(o, route, j);
      const RowRange shard = split.shard(owner);
      const Index begin = min_of(shard.begin + b * block_rows, shard.end);
      const Index end = b + 1 == o.blocks ? shard.end : min_of(begin + block_rows, shard.end);
      o.section[o.count] = {owner, static_cast<int>(begin), static_cast<int>(end)};
      o.tile_rows[o.count] = static_cast<int>(ceil_div(end - begin, worker_rows));
      if (o.tile_rows[o.count] * o.cols > o.max_tiles) o.max_tiles = o.tile_rows[o.count] * o.cols;
      ++o.count;
    }
  }
}

constexpr void fill_columns(ShareOrder& o, Index rows, const Route& route, int worker_rows) {
  for (int j = 0; j < o.ranks; ++j) {
    const int owner = owner_of(o, route, j);
    o.section[o.count] = {owner, 0, static_cast<int>(rows)};
    o.tile_rows[o.count++] = static_cast<int>(ceil_div(rows, worker_rows));
  }
  o.max_tiles = o.tile_rows[0] * o.cols;
}

constexpr void fill_stretches(ShareOrder& o) {
  const int steps = o.blocks * o.cols;
  int tile = 0;
  for (int step = 0; step < steps + o.lag;) {
    // Up to the next step at which a block of remote or of own tiles begins or ends.
    int next = steps + o.lag;
    for (int b = 0; b <= o.blocks; ++b) {
      if (b * o.cols > step && b * o.cols < next) next = b * o.cols;
      if (b * o.cols + o.lag > step && b * o.cols + o.lag < next) next = b * o.cols + o.lag;
    }
    ShareStretch s{tile, step, step / o.cols, (step - o.lag) / o.cols, 0, 0};
    if (step < steps)
      for (int j = 0; j + 1 < o.ranks; ++j) s.remote_rows += o.tile_rows[s.block * o.ranks + j];
    s.rows = s.remote_rows;
    if (step >= o.lag) s.rows += o.tile_rows[s.own_block * o.ranks + o.ranks - 1];
    tile += (next - step) * s.rows;
    if (s.rows > 0) o.stretch[o.stretches++] = s;
    step = next;
  }
  o.stretch[o.stretches].first_tile = tile;
}

}  // namespace detail

/// `block_rows`: of a shard, in every block but the last; a multiple of worker_rows, which is what
/// a worker's tile has. `lag`: at least 1. The shards' rows in at most kMaxShareBlocks blocks.
constexpr ShareOrder make_share_order(const RowSplit& split, const Route& route, int rank, int cols,
                                      int worker_rows, Index block_rows, int lag) {
  ShareOrder o;
  o.rank = rank;
  o.ranks = split.ranks;
  o.cols = cols;
  o.blocks = static_cast<int>(max_of(1, ceil_div(split.max_rows(), block_rows)));
  o.lag = static_cast<int>(min_of(lag, Index{o.blocks} * cols));
  o.own_begin = static_cast<int>(split.shard(rank).begin);
  detail::fill_sections(o, split, route, worker_rows, block_rows);
  detail::fill_stretches(o);
  return o;
}

/// Owners of columns: each has as many of the `cols` of the result; where the ranks do not divide
/// them, the last owners' last tiles lie beyond its end.
constexpr ShareOrder make_share_order_of_columns(Index rows, const Route& route, int rank,
                                                 int ranks, int cols, int worker_rows, int lag) {
  ShareOrder o;
  o.rank = rank;
  o.ranks = ranks;
  o.cols = o.owner_cols = static_cast<int>(ceil_div(cols, ranks));
  o.lag = static_cast<int>(min_of(lag, Index{o.cols}));
  detail::fill_columns(o, rows, route, worker_rows);
  detail::fill_stretches(o);
  return o;
}

}  // namespace tilelace::schedule
