// SPDX-License-Identifier: Apache-2.0
// An ag_gemm as a GEMM kernel walks it: AgGemm's tiles and flags, worked out beforehand into 32-bit
// numbers. By shard: a section for each shard, the own one first, then in order of arrival; its
// tiles begin at the shard's first row. Whole: one section, tiles as if all rows were one matrix.
#pragma once
#include "schedule/ag_gemm.h"
#include "schedule/section_order.h"

namespace tilelace::schedule {

constexpr int kMaxSections = 8;

/// A shard, in order of arrival.
struct GatherShard {
  int source = 0;
  int begin = 0, end = 0;  ///< rows
};

struct GatherOrder : SectionOrder<kMaxSections> {
  int ranks = 1;
  bool whole = false;
  int m = 0;
  int chunk_rows = 1;
  int max_chunks = 1;
  GatherShard shard[kMaxSections];

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
    for (int i = whole ? 0 : 1; i < ranks; ++i) {
      if (!whole && i != section) continue;
      const int from = first > shard[i].begin ? first : shard[i].begin;
      const int to = last < shard[i].end ? last : shard[i].end;
      if (from >= to) continue;
      const int last_chunk = (to - 1 - shard[i].begin) / chunk_rows;
      for (int c = (from - shard[i].begin) / chunk_rows; c <= last_chunk; ++c)
        v.wait(shard[i].source * max_chunks + c);
    }
  }
};

/// `walk` says how; by shard its rows are not looked at. `worker_rows`: rows of a worker's tile.
/// `apart`: shards that are walked one after the other, own first; those behind them are walked
/// together. At most kMaxSections ranks, m below 2^31.
constexpr GatherOrder make_gather_order(const AgGemm& s, const GemmOrder& walk, int worker_rows,
                                        bool whole, int apart = kMaxSections) {
  GatherOrder o;
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
  }
  if (whole) o.append(walk.rows, true);
  for (int i = 0; i < o.ranks && !whole; ++i)
    o.append(ceil_div(o.end(i) - o.begin(i), worker_rows), i <= apart);
  return o;
}

}  // namespace tilelace::schedule
