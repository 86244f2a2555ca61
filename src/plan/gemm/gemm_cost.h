// SPDX-License-Identifier: Apache-2.0
// How long a product takes in a plan's tiles: waves of tiles, each no faster than tensor cores, L2
// and memory allow, the whole no faster than power does.
#pragma once
#include <cstdint>

#include "plan/base/hardware.h"
#include "plan/gemm/gemm_plan.h"

namespace tilelace::plan {

/// Predicted us of a product under sustained load, cut into so many tiles of workers: as many as
/// the problem fills, or more where they end at the borders of shards, of `rows` rows. m, n, k > 0.
double product_us(const GemmProblem&, const GemmPlan&, std::int64_t tiles, std::int64_t rows,
                  const GemmMachine&);

/// What reading so many bytes of memory once more takes beside products.
double reread_us(const Hardware&, double bytes);

}  // namespace tilelace::plan
