// SPDX-License-Identifier: Apache-2.0
// The tiles that a table of measurements gives for a product grouped by expert.
#pragma once
#include <string>

#include "plan/tuning/tuning_table.h"

namespace tilelace::plan {

struct TilesChoice {
  GroupedTiling tiling{};
  std::string reason;
};

/// Distance of a row from a product: |log2| of the ratios of their rows, experts, n and k, added
/// up.
double tuning_distance(const GroupedProduct& row, const GroupedProduct& asked);

/// Whether the table, or one chained to it, has a row of exactly this product for this machine.
bool has_own_row(const TuningTable*, const GroupedProduct&, const Machine&);

/// The tiles of the product's own row in the machine's tables; else of the nearest row, up to
/// kFarthestRow; else what grouped_tiling says. The reason says which. A function of shapes and
/// tables alone: a captured call takes every routing.
TilesChoice choose_tiles(const GroupedProduct&, const Machine&);

}  // namespace tilelace::plan
