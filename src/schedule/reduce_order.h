// SPDX-License-Identifier: Apache-2.0
// A gemm_rs as a GEMM kernel walks it: GemmReduce's shards and flags under transport `store`,
// worked out beforehand into 32-bit numbers. A section is one shard; the own one comes last.
#pragma once
#include "schedule/gemm_reduce_index.h"
#include "schedule/section_order.h"

namespace tilelace::schedule {

constexpr int kMaxReduceRanks = 8;

struct ReduceOrder : SectionOrder<kMaxReduceRanks> {
  int rank = 0, ranks = 1;
  int max_tiles = 1;  ///< of a section
  OwnedRows section[kMaxReduceRanks];

  [[nodiscard]] TILELACE_HD constexpr bool own(int s) const { return section[s].owner == rank; }
  [[nodiscard]] TILELACE_HD constexpr int begin(int s) const { return section[s].begin; }
  [[nodiscard]] TILELACE_HD constexpr int end(int s) const { return section[s].end; }

  /// The own section is walked apart.
  [[nodiscard]] TILELACE_HD constexpr bool own_tile(int t) const {
    return t >= first_tile[walks - 1] && own(first_section[walks - 1]);
  }

  /// Number of a partial among all that its owner receives: from `source`, for a tile of section s.
  [[nodiscard]] TILELACE_HD constexpr int partial(int source, GemmCell c) const {
    return source * max_tiles + c.col * tile_rows[c.section] + c.row;
  }
  [[nodiscard]] TILELACE_HD constexpr int num_partials() const { return ranks * max_tiles; }
};

/// `walk` says how, and how many columns; `worker_rows`: rows of a worker's tile. `together`:
/// remote shards are walked together, not one after the other.
constexpr ReduceOrder make_reduce_order(const GemmReduce& s, const GemmOrder& walk, int worker_rows,
                                        bool together = false) {
  ReduceOrder o;
  o.walk = walk;
  o.rank = s.rank;
  o.ranks = s.ranks();
  o.max_tiles = static_cast<int>(ceil_div(s.max_shard_rows(), worker_rows)) * walk.cols;
  for (int i = 0; i < o.ranks; ++i) {
    const bool own = i + 1 == o.ranks;
    const int owner = own ? s.rank : s.route.reduce_order(s.rank, i);
    const RowRange rows = s.shard(0, owner);
    o.section[o.count] = {owner, static_cast<int>(rows.begin), static_cast<int>(rows.end)};
    o.append(ceil_div(rows.size(), worker_rows), own || !together || i == 0);
  }
  return o;
}

}  // namespace tilelace::schedule
