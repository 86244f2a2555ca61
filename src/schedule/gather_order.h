// SPDX-License-Identifier: Apache-2.0
// An ag_gemm as a GEMM kernel walks it: AgGemm's tiles and flags, worked out beforehand into 32-bit
// numbers. By shard: a section for each shard, the own one first, then in order of arrival; its
// tiles begin at the shard's first row. Whole: one section, or one a weight, tiles as if all rows
// were one matrix.
//
// Sections are walked one after the other, each of them over all columns, so that the weight is
// read once a walk; or those that are there are walked together, column by column, and others join
// at the column at which they have arrived. What they missed comes last.
#pragma once
#include "schedule/ag_gemm.h"
#include "schedule/gemm.h"
#include "schedule/rows.h"
#include "schedule/section_order.h"

namespace tilelace::schedule {

constexpr int kMaxSections = kMaxGpuRanks;  ///< of kernels: shards, or weights

/// A shard, in order of arrival.
struct GatherShard {
  int source = 0;
  int begin = 0, end = 0;  ///< rows
};

/// Some columns of sections that follow each other.
struct GatherWalk {
  int first_tile = 0;
  int first_section = 0, rows = 0;  ///< of tiles, of all its sections
  int first_col = 0, cols = 0;
};

/// Where shards join: the i-th to arrive behind after[i] tiles, not before the one in front of it.
struct GatherJoins {
  int after[kMaxSections] = {};
};

/// kMost: sections. Kernels have GatherOrder; hosts run more ranks.
template <int kMost>
struct GatherOrderOf {
  GemmOrder walk;  ///< its rows and columns are those of each walk
  int ranks = 1;
  bool whole = false;
  int m = 0;
  int chunk_rows = 1;
  int max_chunks = 1;
  GatherShard shard[kMost];
  int count = 0;              ///< sections
  int tile_rows[kMost] = {};  ///< rows of tiles in each
  int walks = 0;
  GatherWalk walked[2 * kMost];  ///< one more, which ends them

  [[nodiscard]] TILELACE_HD constexpr int tiles() const { return walked[walks].first_tile; }

  [[nodiscard]] TILELACE_HD constexpr GemmCell cell(int t) const {
    int w = 0;
    if constexpr (kMost > kFewWalks)
      w = walk_of(walks, t, [this](int i) { return walked[i].first_tile; });
    else
      while (t >= walked[w + 1].first_tile) ++w;
    GemmOrder o = walk;
    o.rows = walked[w].rows;
    o.cols = walked[w].cols;
    GemmCell c = o.cell(t - walked[w].first_tile);
    c.col += walked[w].first_col;
    c.section = walked[w].first_section;
    while (c.row >= tile_rows[c.section]) c.row -= tile_rows[c.section++];
    return c;
  }

  [[nodiscard]] TILELACE_HD constexpr int begin(int section) const {
    return whole ? 0 : shard[section].begin;
  }
  [[nodiscard]] TILELACE_HD constexpr int end(int section) const {
    return whole ? m : shard[section].end;
  }

  /// What must have landed before rows [first, last) of a section can be read: verb wait(flag) for
  /// each chunk. By shard own rows are in place; whole, they are staged, and a flag tells it.
  template <class Verbs>
  TILELACE_ROLE void wait_for_rows(int section, int first, int last, Verbs& v) const {
    if constexpr (kMost > kFewWalks) {
      if (!whole && section == 0) return;
      if (!whole) return wait_for_chunks(section, first, last, v);
    }
    for (int i = whole ? 0 : 1; i < ranks; ++i) {
      if (!whole && i != section) continue;
      wait_for_chunks(i, first, last, v);
    }
  }

  /// Adds a walk over columns [begin, end) of sections [first, last).
  constexpr void append(int first, int last, int begin, int end) {
    int rows = 0;
    for (int s = first; s < last; ++s) rows += tile_rows[s];
    if (rows == 0 || begin >= end) return;
    const int tile = walked[walks].first_tile;
    walked[walks++] = {tile, first, rows, begin, end - begin};
    walked[walks].first_tile = tile + rows * (end - begin);
  }

 private:
  /// Of the i-th shard to arrive.
  template <class Verbs>
  TILELACE_ROLE void wait_for_chunks(int i, int first, int last, Verbs& v) const {
    const int from = first > shard[i].begin ? first : shard[i].begin;
    const int to = last < shard[i].end ? last : shard[i].end;
    if (from >= to) return;
    const int last_chunk = (to - 1 - shard[i].begin) / chunk_rows;
    for (int c = (from - shard[i].begin) / chunk_rows; c <= last_chunk; ++c)
      v.wait(shard[i].source * max_chunks + c);
  }
};

using GatherOrder = GatherOrderOf<kMaxSections>;

namespace detail {

/// The first `apart` sections one after the other, those behind them together.
template <int kMost>
constexpr void walk_apart(GatherOrderOf<kMost>& o, int apart) {
  const int alone = apart < o.count ? apart : o.count;
  for (int s = 0; s < alone; ++s) o.append(s, s + 1, 0, o.walk.cols);
  o.append(alone, o.count, 0, o.walk.cols);
}

/// Of at most kMaxSections.
template <int kMost>
constexpr void walk_joined(GatherOrderOf<kMost>& o, const GatherJoins& joins) {
  int joined[kMost] = {};  // column
  int rows = o.tile_rows[0];
  int tiles = 0;
  for (int s = 1; s < o.count; ++s) {
    const int col = joined[s - 1];
    const int left = joins.after[s] - tiles;
    int cols = left <= 0 ? 0 : o.walk.cols;
    if (left > 0 && rows > 0) cols = static_cast<int>(ceil_div(left, rows));
    joined[s] = col + cols < o.walk.cols ? col + cols : o.walk.cols;
    o.append(0, s, col, joined[s]);
    tiles += rows * (joined[s] - col);
    rows += o.tile_rows[s];
  }
  o.append(0, o.count, joined[o.count - 1], o.walk.cols);
  for (int s = 1; s < o.count; ++s) o.append(s, o.count, joined[s - 1], joined[s]);
}

}  // namespace detail

/// `walk` says how; by shard its rows are not looked at. `worker_rows`: rows of a worker's tile.
/// `apart`: shards that are walked one after the other, own first; those behind them are walked
/// together; 0: they join as `joins` says, which is at once where it says nothing. At most
/// kMost ranks, m below 2^31.
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

/// Of a whole walk: over several weights instead of one, each a section. `tiles[i]`: of the i-th,
/// along columns of the result; `on_rows`: where those are the walk's rows.
template <int kMost>
constexpr void walk_weights(GatherOrderOf<kMost>& o, const int* tiles, int weights, bool on_rows) {
  o.walks = 0;
  o.walked[0] = {};
  o.count = weights;
  for (int w = 0; w < weights; ++w) o.tile_rows[w] = on_rows ? tiles[w] : o.walk.rows;
  if (on_rows) o.append(0, weights, 0, o.walk.cols);
  for (int w = 0; w < weights && !on_rows; ++w) o.append(w, w + 1, 0, tiles[w]);
}

}  // namespace tilelace::schedule
