// SPDX-License-Identifier: Apache-2.0
// The number of tiles in a plan's GEMM.
#pragma once
#include <algorithm>
#include <cstdint>

#include "tilelace/plan.h"

namespace tilelace::sim {

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

inline std::int64_t shard_rows(const Problem& p) {
  return std::max<std::int64_t>(1, ceil_div(p.m, p.ranks));
}

/// Number of rows of tiles in a rank's GEMM. `blocks`: number of parts of each shard.
inline double bands_of(const Problem& p, int blocks, int tile_m, bool straddle) {
  if (straddle) return static_cast<double>(ceil_div(p.m, tile_m));
  const std::int64_t rows = ceil_div(shard_rows(p), blocks);
  return static_cast<double>(ceil_div(rows, tile_m)) * p.ranks * blocks;
}

inline double tiles_of(const Problem& p, const Plan& plan, int tile_n) {
  return bands_of(p, plan.blocks, plan.tile_m, plan.straddle) *
         static_cast<double>(ceil_div(p.total_n(), tile_n));
}

}  // namespace tilelace::sim
