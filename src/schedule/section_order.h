// SPDX-License-Identifier: Apache-2.0
// An order of tiles in sections. A section is a range of rows whose tiles begin at its first row.
// Consecutive sections may be walked together; every walk reads the whole weight. The order is
// computed on the host as 32-bit numbers.
#pragma once
#include "schedule/gemm.h"
#include "schedule/walks.h"

namespace tilelace::schedule {

/// Rows of one owner.
struct OwnedRows {
  int owner = 0;
  int begin = 0, end = 0;
};

template <int kMost>
struct SectionOrder {
  GemmOrder walk;  ///< how tiles are walked; `rows` is replaced by walk_rows
  int count = 0;
  int tile_rows[kMost] = {};  ///< rows of tiles in each section
  int walks = 0;
  int first_section[kMost + 1] = {};  ///< first section of each walk
  int first_tile[kMost + 1] = {};     ///< first tile of each walk
  int walk_rows[kMost] = {};          ///< rows of tiles in each walk

  [[nodiscard]] TILELACE_HD constexpr int tiles() const { return first_tile[walks]; }

  [[nodiscard]] TILELACE_HD constexpr GemmCell cell(int t) const {
    int w = 0;
    if constexpr (kMost > kFewWalks)
      w = walk_of(walks, t, [this](int i) { return first_tile[i]; });
    else
      while (t >= first_tile[w + 1]) ++w;
    GemmOrder o = walk;
    o.rows = walk_rows[w];
    GemmCell c = o.cell(t - first_tile[w]);
    c.section = first_section[w];
    while (c.row >= tile_rows[c.section]) c.row -= tile_rows[c.section++];
    return c;
  }

  /// Adds a section of `rows` rows of tiles to the last walk or, if `apart`, to a new walk.
  constexpr void append(int rows, bool apart) {
    if (apart || count == 0) {
      first_section[walks] = count;
      first_tile[walks + 1] = first_tile[walks];
      ++walks;
    }
    tile_rows[count++] = rows;
    walk_rows[walks - 1] += rows;
    first_tile[walks] += rows * walk.cols;
    first_section[walks] = count;
  }
};

}  // namespace tilelace::schedule
