// SPDX-License-Identifier: Apache-2.0
// A gemm_rs in the order of a GEMM kernel: GemmReduce's shards and flags with transport `store`,
// computed beforehand as 32-bit numbers. Each section is a shard; the own one comes last.
#pragma once
#include "schedule/section_order.h"

namespace tilelace::schedule {

/// kMost: the most ranks. Kernels use ReduceOrder; CPU ranks may be more.
template <int kMost>
struct ReduceOrderOf : SectionOrder<kMost> {
  int rank = 0, ranks = 1;
  int max_tiles = 1;  ///< the most tiles of a section
  OwnedRows section[kMost];

  [[nodiscard]] TILELACE_HD constexpr bool own(int s) const { return section[s].owner == rank; }
  [[nodiscard]] TILELACE_HD constexpr int begin(int s) const { return section[s].begin; }
  [[nodiscard]] TILELACE_HD constexpr int end(int s) const { return section[s].end; }
  /// Index, in a kernel's `tail`, of the section's tensor map.
  [[nodiscard]] TILELACE_HD constexpr int tail(int s) const { return s; }

  /// Whether tile t is in the own section, which is walked separately.
  [[nodiscard]] TILELACE_HD constexpr bool own_tile(int t) const {
    const int last = this->walks - 1;
    return t >= this->first_tile[last] && own(this->first_section[last]);
  }

  /// Number of the partial from `source` for a tile of section s among all that an owner receives.
  [[nodiscard]] TILELACE_HD constexpr int partial(int source, GemmCell c) const {
    return source * max_tiles + c.col * this->tile_rows[c.section] + c.row;
  }
  [[nodiscard]] TILELACE_HD constexpr int num_partials() const { return ranks * max_tiles; }
};

using ReduceOrder = ReduceOrderOf<kMaxGpuRanks>;

/// Shards in pairs, for few rows. A cluster is two CTAs, one below the other; each computes a tile
/// of one of the pair's shards, so that they share the weight's columns. All shards have equally
/// many tiles; the own shard is the second of the last pair.
struct PairOrder : ReduceOrder {
  static constexpr bool kPairs = true;
  int rows = 1;  ///< rows of CTAs' tiles in a shard

  /// The tile of the t-th cluster in the first shard of its pair.
  [[nodiscard]] TILELACE_HD constexpr GemmCell cell(int t) const {
    const int w = t >= first_tile[1] ? walks - 1 : 0;
    GemmOrder o = walk;
    o.rows = walk_rows[w];
    GemmCell c = o.cell(t - first_tile[w]);
    c.section = first_section[w] + c.row / rows * 2;
    c.row %= rows;
    return c;
  }
  /// Turns the pair's cell into that of its second (or first) CTA, as if both CTAs were in its
  /// shard, one below the other; returns which of the two (0 or 1) this CTA then is.
  TILELACE_HD constexpr int enter(GemmCell& c, int second) const {
    c.section += second;
    const int row = c.row & 1;
    c.row >>= 1;
    return row;
  }
  /// Whether the second tile of the pair is in the own shard.
  [[nodiscard]] TILELACE_HD constexpr bool own_tile(int t) const {
    return t >= first_tile[walks - 1];
  }
  /// Whether section s is the first of the pair whose second is the own shard.
  [[nodiscard]] TILELACE_HD constexpr bool beside_own(int s) const { return s + 2 == count; }
};

}  // namespace tilelace::schedule
