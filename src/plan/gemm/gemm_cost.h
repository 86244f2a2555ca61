// SPDX-License-Identifier: Apache-2.0
// How long a product takes in a plan's tiles: waves of tiles, each no faster than tensor cores, L2
// and memory allow, the whole no faster than power does.
#pragma once
#include <cstdint>

#include "plan/base/hardware.h"
#include "plan/gemm/gemm_plan.h"

namespace tilelace::plan {

/// How a product's rows are cut into tiles of workers.
struct TileCut {
  std::int64_t tiles = 0;  ///< more than the problem fills where they end at the borders of shards
  std::int64_t rows = 0;   ///< between two borders
  double walks = 1;        ///< over the weight, one after the other: each reads it
};

/// Predicted us of a product under sustained load. m, n, k > 0.
double product_us(const GemmProblem&, const GemmPlan&, const TileCut&, const GemmMachine&);

}  // namespace tilelace::plan
