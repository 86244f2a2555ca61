// SPDX-License-Identifier: Apache-2.0
// The tiles of a grouped product, which multiplies rows, ordered by expert, by the weight of their
// expert. Only the device knows each expert's number of rows, so kernels compute the places of
// tiles from these numbers.
#pragma once
#include "core/host_device.h"

namespace tilelace::schedule {

/// A tile's computed rows are a multiple of this, since tensor cores take eight tokens at once.
constexpr int kRowsTogether = 8;

/// One tile of an expert. Rows are counted from the expert's first row.
struct GroupedCell {
  int row;     ///< first row of the tile
  int rows;    ///< the expert's rows in the tile
  int width;   ///< rows that are computed: a multiple of kRowsTogether
  int column;  ///< index of the column of tiles, from 0
};

/// How each expert's result is cut into tiles.
struct GroupedTiles {
  int most;     ///< the most rows of a tile; a multiple of kRowsTogether
  int columns;  ///< number of columns of tiles
  int deep;     ///< rows of tiles walked together, column by column, so that operands stay in L2

  /// Rows of each tile of an expert that has `rows` rows; the expert's last tile may have fewer.
  /// The tiles of an expert have about equal sizes, since narrow tiles are slow.
  [[nodiscard]] TILELACE_HD constexpr int width(int rows) const {
    const int fewest = (rows + most - 1) / most;
    if (fewest <= 1) return most;
    const int even = (rows + fewest - 1) / fewest;
    return (even + kRowsTogether - 1) / kRowsTogether * kRowsTogether;
  }
  /// Number of tiles along an expert's rows; 0 if the expert has no rows.
  [[nodiscard]] TILELACE_HD constexpr int row_tiles(int rows) const {
    return rows <= 0 ? 0 : (rows + width(rows) - 1) / width(rows);
  }
  [[nodiscard]] TILELACE_HD constexpr int tiles(int rows) const {
    return row_tiles(rows) * columns;
  }
  /// The tile-th tile of an expert. `deep` rows of tiles at a time are walked, column by column.
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
