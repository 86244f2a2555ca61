// SPDX-License-Identifier: Apache-2.0
// The tiles for a product grouped by expert, from a table of measurements.
#pragma once
#include <string>

#include "plan/tuning/tuning_table.h"

namespace tilelace::plan {

struct TilesChoice {
  GroupedShape shape;
  std::string reason;
};

/// Distance of a row from a product: the sum of size_factor for rows, for experts, for n and for k.
double tuning_distance(const GroupedProduct& row, const GroupedProduct& asked);

/// Whether the chain of tables has this product, in any dtype of equal size, for this machine.
bool has_own_row(const TuningTable*, const GroupedProduct&, const Machine&);

/// The tiles of the product's own row in the machine's tables, else the tiles of the nearest row
/// within kFarthestRow, else the tiles of the architecture's rule. TilesChoice::reason says why.
/// The choice depends only on sizes and tables, so a captured call works for every routing. Errors:
/// usage (an architecture without kernels for experts).
TilesChoice choose_tiles(const GroupedProduct&, const Machine&);

}  // namespace tilelace::plan
