// SPDX-License-Identifier: Apache-2.0
// The tiles of a grouped product: rows that belong to experts, one expert's after the other's,
// times each expert's own weight. Where experts begin is known on the device alone, so which tile
// is where is a function of those numbers.
#pragma once
#include "core/host_device.h"

namespace tilelace::schedule {

/// Rows of a tile are a multiple of this: tensor cores take eight tokens at once.
constexpr int kRowsTogether = 8;

/// One tile of an expert. Rows count from the expert's first.
struct GroupedCell {
  int row;     ///< the first
  int rows;    ///< that the expert has here
  int width;   ///< rows that are computed: a multiple of kRowsTogether
  int column;  ///< tile across the columns
};

/// How each expert's result is cut.
struct GroupedTiles {
  int most;     ///< rows of a tile, at most; a multiple of kRowsTogether
  int columns;  ///< tiles across the columns of the result
  int deep;     ///< tiles of rows that are walked under the same columns, so that both stay in L2

  /// Rows of each tile of an expert that has `rows` rows; its last tile may have fewer. Tiles have
  /// about the same size, since narrow ones are slow.
  [[nodiscard]] TILELACE_HD constexpr int width(int rows) const {
    const int fewest = (rows + most - 1) / most;
    if (fewest <= 1) return most;
    const int even = (rows + fewest - 1) / fewest;
    return (even + kRowsTogether - 1) / kRowsTogether * kRowsTogether;
  }
  /// Number of tiles along an expert's rows; 0 if it has none.
  [[nodiscard]] TILELACE_HD constexpr int row_tiles(int rows) const {
    return rows <= 0 ? 0 : (rows + width(rows) - 1) / width(rows);
  }
  [[nodiscard]] TILELACE_HD constexpr int tiles(int rows) const {
    return row_tiles(rows) * columns;
  }
  /// The tile-th tile of an expert: `deep` tiles of rows at a time, all columns of them.
  [[nodiscard]] TILELACE_HD constexpr GroupedCell cell(int rows, int tile) const {
    const int wide = width(rows);
    const int all = (rows + wide - 1) / wide;
    const int band = tile / (deep * columns);
    const int left = all - band * deep;
    const int high = left < deep ? left : deep;
    const int in_band = tile - band * deep * columns;
    const int row = (band * deep + in_band % high) * wide;
    const int here = rows - row < wide ? rows - row : wide;
    return {row, here, (here + kRowsTogether - 1) / kRowsTogether * kRowsTogether, in_band / high};
  }
};

}  // namespace tilelace::schedule
