// SPDX-License-Identifier: Apache-2.0
// What the kernels of an ag_gemm multiply, and what that takes, for predictions of its plans.
#pragma once
#include "plan/gemm/gemm_cost.h"
#include "plan/ways/ag_gemm_way.h"
#include "schedule/rows.h"

namespace tilelace::plan {

/// The first kernel's product, on m rows.
GemmProblem first_product(const Problem&, const GemmTile&, schedule::Index m);
/// Predicted time of the kernels behind the first one, on m rows.
double behind_first_us(const Problem&, const GemmPlan&, schedule::Index m, const GemmMachine&);
/// Tiles of the first kernel, if they end at the borders of shards.
schedule::Index tiles_by_shard(const Problem&, const GemmTile&, const schedule::RowSplit&);
/// Predicted time of all kernels on all rows, with the first one's product cut like this.
double cut_products_us(const Problem&, const GemmPlan&, const TileCut&, const GemmMachine&);

}  // namespace tilelace::plan
