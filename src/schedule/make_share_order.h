// SPDX-License-Identifier: Apache-2.0
// Computes the order of tiles that kernels of gemm_ar follow.
#pragma once
#include "schedule/route.h"
#include "schedule/rows.h"
#include "schedule/share_order.h"

namespace tilelace::schedule {

namespace detail {

/// Owner of the j-th section of a block. The peers come first, this rank comes last.
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
    // The stretch lasts until the next step at which a block of remote or own tiles begins or ends.
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

/// `block_rows`: rows of a shard in every block but the last; a multiple of `worker_rows`, the rows
/// of a worker's tile. `lag`: at least 1. A shard has at most kMaxShareBlocks blocks.
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

/// The order if owners have columns. Each rank owns equally many of the `cols` columns of tiles. If
/// `ranks` does not divide `cols`, the last owners' last tiles lie beyond the result.
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
