// SPDX-License-Identifier: Apache-2.0
// The order of tiles in a GEMM kernel of an ag_gemm, computed on the host as 32-bit numbers. Flags
// are AgGemm::landed(). An order by shard has one section per shard: first the own shard, then the
// peers' shards in order of arrival. Tiles begin at the shard's first row. A whole order covers all
// rows as one matrix, in one section. Columns of several weights stand side by side.
//
// Sections may be walked one after the other; the walk of each section then reads the whole weight.
// Or the sections that have arrived are walked together, column by column. A later section joins at
// the column that the walk has then reached; the columns that the section missed come last.
#pragma once
#include "schedule/gemm.h"
#include "schedule/walks.h"

namespace tilelace::schedule {

constexpr int kMaxSections = kMaxGpuRanks;  ///< the most sections in kernels

/// An entry of the list of shards in order of arrival.
struct GatherShard {
  int source = 0;
  int begin = 0, end = 0;  ///< rows [begin, end)
};

/// One walk: a range of columns of consecutive sections.
struct GatherWalk {
  int first_tile = 0;
  int first_section = 0, rows = 0;  ///< `rows`: rows of tiles in all sections of the walk
  int first_col = 0, cols = 0;
};

/// Shard i of the list joins once after[i] tiles have been walked and shard i - 1 has joined.
struct GatherJoins {
  int after[kMaxSections] = {};
};

/// kMost: the most sections. Kernels use GatherOrder; a larger kMost is for more CPU ranks.
template <int kMost>
struct GatherOrderOf {
  GemmOrder walk;  ///< `rows` and `cols` are replaced by those of each walk
  int ranks = 1;
  bool whole = false;
  int m = 0;
  int chunk_rows = 1;
  int max_chunks = 1;
  GatherShard shard[kMost];
  int count = 0;              ///< number of sections
  int tile_rows[kMost] = {};  ///< rows of tiles per section
  int walks = 0;
  GatherWalk walked[2 * kMost];  ///< `walks` walks, then an entry that begins after the last tile

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
  /// Index of the section's tensor map in a kernel's `tail` (maps for the last rows of sections).
  [[nodiscard]] TILELACE_HD constexpr int tail(int section) const { return whole ? 0 : section; }

  /// Calls f(flag, flags) for each run of consecutive flags that must be raised before rows
  /// [first, last) of a section can be read. Only a whole order awaits own rows, since it stages
  /// them; an order by shard reads them in place.
  template <class F>
  TILELACE_ROLE void for_awaited(int section, int first, int last, F f) const {
    if constexpr (kMost > kFewWalks) {
      if (!whole && section == 0) return;
      if (!whole) return for_chunks(section, first, last, f);
    }
    for (int i = whole ? 0 : 1; i < ranks; ++i) {
      if (!whole && i != section) continue;
      for_chunks(i, first, last, f);
    }
  }
  /// Waits for these flags one after the other, by the verb wait(flag).
  template <class Verbs>
  TILELACE_ROLE void wait_for_rows(int section, int first, int last, Verbs& v) const {
    for_awaited(section, first, last, [&v](int flag, int flags) {
      for (int i = 0; i < flags; ++i) v.wait(flag + i);
    });
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
  /// Calls f for the i-th shard's chunks that have rows in [first, last).
  template <class F>
  TILELACE_ROLE void for_chunks(int i, int first, int last, F& f) const {
    const int from = first > shard[i].begin ? first : shard[i].begin;
    const int to = last < shard[i].end ? last : shard[i].end;
    if (from >= to) return;
    const int chunk = (from - shard[i].begin) / chunk_rows;
    const int last_chunk = (to - 1 - shard[i].begin) / chunk_rows;
    f(shard[i].source * max_chunks + chunk, last_chunk - chunk + 1);
  }
};

using GatherOrder = GatherOrderOf<kMaxSections>;

}  // namespace tilelace::schedule
