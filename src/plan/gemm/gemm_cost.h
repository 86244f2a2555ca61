// SPDX-License-Identifier: Apache-2.0
// Predicted time of a GEMM in a plan's tiles: waves of tiles, limited by tensor cores, L2 and
// memory, and as a whole by power.
#pragma once
#include <cstdint>

#include "plan/base/hardware.h"
#include "plan/gemm/gemm_plan.h"

namespace tilelace::plan {

/// How a GEMM's rows are cut into workers' tiles.
struct TileCut {
  std::int64_t tiles = 0;  ///< number of tiles, with partly filled ones at borders of shards
  std::int64_t rows = 0;   ///< between two borders
  double walks = 1;        ///< how often the weight is read, one walk after the other
};

/// Time under two limits: the larger one, and a little more where the two are close.
double both_limits_us(double, double);

/// Predicted us of a product under sustained load. m, n, k > 0.
double product_us(const GemmProblem&, const GemmPlan&, const TileCut&, const GemmMachine&);

}  // namespace tilelace::plan
