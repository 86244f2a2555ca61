// SPDX-License-Identifier: Apache-2.0
// Computes the order of tiles that kernels of gemm_rs follow.
#pragma once
#include "schedule/gemm_reduce_index.h"
#include "schedule/reduce_order.h"

namespace tilelace::schedule {

/// `walk`: how tiles are walked, and how many columns of tiles there are. `worker_rows`: rows of a
/// worker's tile. `together`: remote shards are walked together, not one after the other.
template <int kMost = kMaxGpuRanks>
constexpr ReduceOrderOf<kMost> make_reduce_order(const GemmReduce& s, const GemmOrder& walk,
                                                 int worker_rows, bool together = false) {
  ReduceOrderOf<kMost> o;
  o.walk = walk;
  o.rank = s.rank;
  o.ranks = s.ranks();
  o.max_tiles = static_cast<int>(ceil_div(s.max_shard_rows(), worker_rows)) * walk.cols;
  for (int i = 0; i < o.ranks; ++i) {
    const bool own = i + 1 == o.ranks;
    const int owner = own ? s.rank : s.route.reduce_order(s.rank, i);
    const RowRange rows = s.shard(0, owner);
    o.section[o.count] = {owner, static_cast<int>(rows.begin), static_cast<int>(rows.end)};
    o.append(static_cast<int>(ceil_div(rows.size(), worker_rows)), own || !together || i == 0);
  }
  return o;
}

/// The order with shards in pairs, for an even number of ranks. `cta_rows`: rows of a CTA's tile.
constexpr PairOrder make_pair_order(const GemmReduce& s, const GemmOrder& walk, int cta_rows) {
  PairOrder o;
  static_cast<ReduceOrder&>(o) = make_reduce_order(s, walk, 2 * cta_rows);
  o.rows = static_cast<int>(ceil_div(s.max_shard_rows(), cta_rows));
  o.walks = 0;
  for (int i = 0; i < o.ranks; ++i) o.tile_rows[i] = (o.rows + 1) / 2;
  // The last pair is walked alone, after all other pairs.
  const int before = o.ranks - 2;
  for (const int shards : {before, 2}) {
    if (shards == 0) continue;
    o.walk_rows[o.walks] = shards / 2 * o.rows;
    o.first_section[o.walks + 1] = o.first_section[o.walks] + shards;
    o.first_tile[o.walks + 1] = o.first_tile[o.walks] + o.walk_rows[o.walks] * walk.cols;
    ++o.walks;
  }
  return o;
}

}  // namespace tilelace::schedule
