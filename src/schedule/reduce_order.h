// SPDX-License-Identifier: Apache-2.0
// A gemm_rs or gemm_ar as a GEMM kernel walks it: GemmReduce's shards and flags under transport
// `store`, worked out beforehand into 32-bit numbers. A section is one shard of one super-block;
// remote ones come before the own one that they travel under.
#pragma once
#include "schedule/gemm_reduce_index.h"
#include "schedule/section_order.h"

namespace tilelace::schedule {

constexpr int kMaxReduceRanks = 8;
constexpr int kMaxReduceBlocks = 4;
constexpr int kMaxReduceSections = kMaxReduceRanks * kMaxReduceBlocks;

struct ReduceSection {
  int block = 0, owner = 0;
  int begin = 0, end = 0;  ///< rows
};

struct ReduceOrder : SectionOrder<kMaxReduceSections> {
  int rank = 0, ranks = 1, blocks = 1;
  int max_tiles = 1;  ///< of a section
  ReduceSection section[kMaxReduceSections];

  [[nodiscard]] TILELACE_HD constexpr bool own(int s) const { return section[s].owner == rank; }
  [[nodiscard]] TILELACE_HD constexpr int begin(int s) const { return section[s].begin; }
  [[nodiscard]] TILELACE_HD constexpr int end(int s) const { return section[s].end; }

  /// Own sections are walked apart.
  [[nodiscard]] TILELACE_HD constexpr bool own_tile(int t) const {
    int w = 0;
    while (t >= first_tile[w + 1]) ++w;
    return own(first_section[w]);
  }

  /// Number of a partial among all that its owner receives: from `source`, for a tile of section s.
  [[nodiscard]] TILELACE_HD constexpr int partial(int source, GemmCell c) const {
    const int tile = c.col * tile_rows[c.section] + c.row;
    return (source * blocks + section[c.section].block) * max_tiles + tile;
  }
  [[nodiscard]] TILELACE_HD constexpr int num_partials() const {
    return ranks * blocks * max_tiles;
  }
};

/// `walk` says how, and how many columns; `worker_rows`: rows of a worker's tile. `together`:
/// remote shards of a super-block are walked together, not one after the other.
constexpr ReduceOrder make_reduce_order(const GemmReduce& s, const GemmOrder& walk, int worker_rows,
                                        bool together = false) {
  ReduceOrder o;
  o.walk = walk;
  o.rank = s.rank;
  o.ranks = s.ranks();
  o.blocks = s.blocks;
  o.max_tiles = static_cast<int>(ceil_div(s.max_shard_rows(), worker_rows)) * walk.cols;
  int before = s.rank;
  for (int segment = 0; segment <= s.blocks; ++segment)
    for (int j = 0; j < s.visits(); ++j) {
      const GemmReduce::Visit at = s.visit(segment, j);
      if (at.owner < 0) continue;
      const RowRange rows = s.shard(at.block, at.owner);
      o.section[o.count] = {at.block, at.owner, static_cast<int>(rows.begin),
                            static_cast<int>(rows.end)};
      const bool with_before = together && at.owner != s.rank && before != s.rank;
      o.append(ceil_div(rows.size(), worker_rows), !with_before);
      before = at.owner;
    }
  return o;
}

}  // namespace tilelace::schedule
