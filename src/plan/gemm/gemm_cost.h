// SPDX-License-Identifier: Apache-2.0
// Predicts the time of a GEMM with a given plan. Each wave of tiles is limited by tensor cores, L2
// or memory; the GEMM as a whole is limited by power.
#pragma once
#include <cstdint>

#include "plan/base/hardware.h"
#include "plan/gemm/gemm_plan.h"

namespace tilelace::plan {

/// How a GEMM's rows are cut into workers' tiles.
struct TileCut {
  std::int64_t tiles = 0;  ///< number of tiles, including partly filled ones at borders of shards
  double walks = 1;        ///< number of walks over the tiles; each reads the whole weight
};

/// The time under two limits: the larger of their times, or slightly more if these are similar.
double both_limits_us(double, double);

/// Predicted microseconds of a GEMM under sustained load. m, n, k > 0.
double product_us(const GemmProblem&, const GemmPlan&, const TileCut&, const GemmMachine&);

}  // namespace tilelace::plan
