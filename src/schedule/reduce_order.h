// SPDX-License-Identifier: Apache-2.0
// The order of tiles in a GEMM kernel of a gemm_rs, computed on the host as 32-bit numbers. Each
// section is a shard, the own shard is last. With transport `store`, partial() numbers the flags.
#pragma once
#include "schedule/section_order.h"

namespace tilelace::schedule {

/// kMost: the most ranks. Kernels use ReduceOrder; a larger kMost is for more CPU ranks.
template <int kMost>
struct ReduceOrderOf : SectionOrder<kMost> {
  int rank = 0, ranks = 1;
  int max_tiles = 1;  ///< the most tiles of a section
  OwnedRows section[kMost];

  [[nodiscard]] TILELACE_HD constexpr bool own(int s) const { return section[s].owner == rank; }
  [[nodiscard]] TILELACE_HD constexpr int begin(int s) const { return section[s].begin; }
  [[nodiscard]] TILELACE_HD constexpr int end(int s) const { return section[s].end; }
  /// Index of the section's tensor map in a kernel's `tail` (maps for the last rows of sections).
  [[nodiscard]] TILELACE_HD constexpr int tail(int s) const { return s; }

  /// Whether tile t is in the own section, which is walked separately.
  [[nodiscard]] TILELACE_HD constexpr bool own_tile(int t) const {
    const int last = this->walks - 1;
    return t >= this->first_tile[last] && own(this->first_section[last]);
  }

  /// Index of `source`'s partial for the tile at c, among all partials that the tile's owner gets.
  [[nodiscard]] TILELACE_HD constexpr int partial(int source, GemmCell c) const {
    return source * max_tiles + c.col * this->tile_rows[c.section] + c.row;
  }
  [[nodiscard]] TILELACE_HD constexpr int num_partials() const { return ranks * max_tiles; }
};

using ReduceOrder = ReduceOrderOf<kMaxGpuRanks>;

/// An order for few rows, with shards in pairs. The first CTA of a cluster computes a tile of the
/// pair's first shard. The second CTA computes a tile of the second shard with the same columns of
/// the weight. All shards have equally many tiles; the own shard is the second of the last pair.
struct PairOrder : ReduceOrder {
  static constexpr bool kPairs = true;
  int rows = 1;  ///< rows of CTA tiles in a shard

  /// The cell of the t-th pair's CTA tile in the first shard. The cell's row counts CTA tiles.
  [[nodiscard]] TILELACE_HD constexpr GemmCell cell(int t) const {
    const int w = t >= first_tile[1] ? walks - 1 : 0;
    GemmOrder o = walk;
    o.rows = walk_rows[w];
    GemmCell c = o.cell(t - first_tile[w]);
    c.section = first_section[w] + c.row / rows * 2;
    c.row %= rows;
    return c;
  }
  /// Turns a pair's cell into the cell of CTA `second` (0 or 1), in that CTA's shard.
  /// The new cell is two CTA tiles high, as in ReduceOrder. Returns the CTA's half (0 or 1).
  TILELACE_HD constexpr int enter(GemmCell& c, int second) const {
    c.section += second;
    const int row = c.row & 1;
    c.row >>= 1;
    return row;
  }
  /// Whether the second tile of the t-th pair is in the own shard.
  [[nodiscard]] TILELACE_HD constexpr bool own_tile(int t) const {
    return t >= first_tile[walks - 1];
  }
  /// Whether section s is the shard that is paired with the own shard.
  [[nodiscard]] TILELACE_HD constexpr bool beside_own(int s) const { return s + 2 == count; }
};

}  // namespace tilelace::schedule
