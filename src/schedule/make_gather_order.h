// SPDX-License-Identifier: Apache-2.0
// Computes what kernels of ag_gemm follow: the order of tiles, and this rank's sends.
#pragma once
#include "schedule/ag_gemm.h"
#include "schedule/gather_order.h"
#include "schedule/push_order.h"

namespace tilelace::schedule {

namespace detail {

/// Appends one walk for each of the first `apart` sections, then one walk for all later sections.
template <int kMost>
constexpr void walk_apart(GatherOrderOf<kMost>& o, int apart) {
  const int alone = apart < o.count ? apart : o.count;
  for (int s = 0; s < alone; ++s) o.append(s, s + 1, 0, o.walk.cols);
  o.append(alone, o.count, 0, o.walk.cols);
}

/// Appends walks in which sections join as `joins` says. At most kMaxSections sections.
template <int kMost>
constexpr void walk_joined(GatherOrderOf<kMost>& o, const GatherJoins& joins) {
  int joined[kMost] = {};  // column at which each section joined
  int rows = o.tile_rows[0];
  int tiles = 0;
  for (int s = 1; s < o.count; ++s) {
    const int col = joined[s - 1];
    const int left = joins.after[s] - tiles;
    int cols = left <= 0 ? 0 : o.walk.cols;
    if (left > 0 && rows > 0) cols = static_cast<int>(ceil_div(left, rows));
    joined[s] = col + static_cast<int>(min_of(cols, o.walk.cols - col));
    o.append(0, s, col, joined[s]);
    tiles += rows * (joined[s] - col);
    rows += o.tile_rows[s];
  }
  o.append(0, o.count, joined[o.count - 1], o.walk.cols);
  for (int s = 1; s < o.count; ++s) o.append(s, o.count, joined[s - 1], joined[s]);
}

}  // namespace detail

/// The order of tiles, by shard or `whole`. `walk`: how tiles are walked (walk.rows counts only if
/// `whole`). `worker_rows`: rows of a worker's tile. The first `apart` shards, beginning with the
/// own shard, are walked one after the other; later shards are walked together. `apart` 0: shards
/// join as `joins` says, or all at once if `joins` is empty. At most kMost ranks; m is below 2^31.
template <int kMost = kMaxSections>
constexpr GatherOrderOf<kMost> make_gather_order(const AgGemm& s, const GemmOrder& walk,
                                                 int worker_rows, bool whole, int apart = kMost,
                                                 const GatherJoins& joins = {}) {
  GatherOrderOf<kMost> o;
  o.walk = walk;
  o.ranks = s.ranks();
  o.whole = whole;
  o.m = static_cast<int>(s.split.m);
  o.chunk_rows = static_cast<int>(s.chunk_rows);
  o.max_chunks = static_cast<int>(s.max_chunks());
  for (int i = 0; i < o.ranks; ++i) {
    const int source = s.route.gather_order(s.rank, i);
    const RowRange rows = s.split.shard(source);
    o.shard[i] = {source, static_cast<int>(rows.begin), static_cast<int>(rows.end)};
    if (!whole) o.tile_rows[o.count++] = static_cast<int>(ceil_div(rows.size(), worker_rows));
  }
  if (whole) o.tile_rows[o.count++] = walk.rows;
  if (apart == 0)
    detail::walk_joined(o, joins);
  else
    detail::walk_apart(o, apart);
  return o;
}

/// This rank's sends. `stage`: own rows are copied into the own slot, too.
constexpr PushOrder make_push_order(const AgGemm& s, bool stage) {
  const RowRange own = s.split.shard(s.rank);
  PushOrder o;
  o.rank = s.rank;
  o.ranks = s.ranks();
  o.targets = s.ranks() - (stage ? 0 : 1);
  o.pieces = static_cast<int>(s.chunks(s.rank).count()) * o.targets;
  o.first_flag = static_cast<int>(s.rank * s.max_chunks());
  o.begin = own.begin;
  o.rows = own.size();
  o.chunk_rows = s.chunk_rows;
  return o;
}

}  // namespace tilelace::schedule
