// SPDX-License-Identifier: Apache-2.0
// Tiles in sections: rows that are walked one section after the other, each with tiles of its own
// that begin at its first row. Worked out on the host into 32-bit numbers for a kernel.
#pragma once
#include "schedule/gemm.h"
#include "schedule/rows.h"

namespace tilelace::schedule {

template <int kMost>
struct SectionOrder {
  GemmOrder walk;  ///< within a section, whose rows of tiles take the place of its own
  int count = 0;
  int tile_rows[kMost] = {};       ///< rows of tiles in each section
  int first_tile[kMost + 1] = {};  ///< of each section

  [[nodiscard]] TILELACE_HD constexpr int tiles() const { return first_tile[count]; }

  [[nodiscard]] TILELACE_HD constexpr GemmCell cell(int t) const {
    int s = 0;
    while (t >= first_tile[s + 1]) ++s;
    GemmOrder o = walk;
    o.rows = tile_rows[s];
    GemmCell c = o.cell(t - first_tile[s]);
    c.section = s;
    return c;
  }

  /// Adds a section of this many rows of tiles.
  constexpr void append(Index rows_of_tiles) {
    tile_rows[count] = static_cast<int>(rows_of_tiles);
    first_tile[count + 1] = first_tile[count] + tile_rows[count] * walk.cols;
    ++count;
  }
};

}  // namespace tilelace::schedule
