// SPDX-License-Identifier: Apache-2.0
// The order of tiles in the GEMM kernel of a fused gemm_ar. All shards of rows have the same number
// of blocks. A kernel walks the first blocks of all shards together, one column of tiles per step.
// After the last column, the second blocks follow, and so on. A step first has the remote tiles (of
// peers' shards), then the own tiles (of this rank's shard) of the column that was `lag` steps ago.
// So peers' partials for own tiles have time to arrive, and few tiles are sent at the call's end.
//
// If a shard would have fewer rows than a tile, every rank owns columns of tiles instead of rows.
// There is one block in this case, and a step is one column of every owner.
//
// There is no deadlock, since own tiles of step g need only peers' remote tiles of step g - lag,
// and every rank takes tiles in the order of steps.
#pragma once
#include "schedule/gemm.h"
#include "schedule/section_order.h"

namespace tilelace::schedule {

constexpr int kMaxShareBlocks = 8;
constexpr int kMaxShareSections = kMaxGpuRanks * kMaxShareBlocks;

/// Consecutive steps with equally many tiles. A step has one tile per row of tiles.
struct ShareStretch {
  int first_tile = 0, first_step = 0;
  int block = 0, own_block = 0;   ///< `block` has the remote tiles, `own_block` has the own tiles
  int remote_rows = 0, rows = 0;  ///< `rows`: tiles per step; `remote_rows`: remote tiles per step
};

struct ShareOrder {
  static constexpr bool kInRounds = true;
  int rank = 0, ranks = 1, blocks = 1;
  int cols = 1;                          ///< columns of tiles of a section
  int owner_cols = 0;                    ///< tile columns per owner if owners have columns; else 0
  int lag = 0;                           ///< steps from a column's remote tiles to its own tiles
  int own_begin = 0;                     ///< first row of the own shard
  int max_tiles = 1;                     ///< the most tiles of a section
  int count = 0;                         ///< number of sections
  OwnedRows section[kMaxShareSections];  ///< for each block: remote sections, then the own section
  int tile_rows[kMaxShareSections] = {};
  int stretches = 0;
  ShareStretch stretch[2 * kMaxShareBlocks + 3];

  [[nodiscard]] TILELACE_HD constexpr int tiles() const { return stretch[stretches].first_tile; }
  [[nodiscard]] TILELACE_HD constexpr bool own(int s) const { return section[s].owner == rank; }
  [[nodiscard]] TILELACE_HD constexpr int begin(int s) const { return section[s].begin; }
  [[nodiscard]] TILELACE_HD constexpr int end(int s) const { return section[s].end; }
  /// Index in a kernel's `tail` of the tensor map for a section's last rows. If owners have
  /// columns, the index is 0. Else it is -1 (no map), since tiles may load the next owner's rows.
  [[nodiscard]] TILELACE_HD constexpr int tail(int /*s*/) const { return owner_cols > 0 ? 0 : -1; }
  [[nodiscard]] TILELACE_HD constexpr int block(int s) const { return s / ranks; }
  /// The column of tiles, in the result, at which a section's columns begin.
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
    // Blocks alternate in direction, since the weights of the previous step are still in cache.
    return {row, walked(block, col), s};
  }
  [[nodiscard]] TILELACE_HD constexpr bool own_tile(int t) const {
    const ShareStretch& at = stretch[stretch_of(t)];
    return (t - at.first_tile) % at.rows >= at.remote_rows;
  }

  /// Index of `source`'s partial for the tile at c, among all partials that the tile's owner gets.
  /// With the owner as `source` (which sends itself no partial), this is the finished tile's index.
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
  /// Odd blocks are walked from the last column to the first.
  [[nodiscard]] TILELACE_HD constexpr int walked(int block, int col) const {
    return (block & 1) != 0 ? cols - 1 - col : col;
  }
  [[nodiscard]] TILELACE_HD constexpr int stretch_of(int t) const {
    int i = 0;
    while (t >= stretch[i + 1].first_tile) ++i;
    return i;
  }
};

}  // namespace tilelace::schedule
