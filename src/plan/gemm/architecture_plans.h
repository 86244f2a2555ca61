// SPDX-License-Identifier: Apache-2.0
// What the planner knows of each architecture: its tiles, and how long products of them take.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "plan/gemm/gemm_cost.h"
#include "plan/gemm/gemm_plan.h"

namespace tilelace::plan {

struct ArchitecturePlans {
  std::string_view architecture;  ///< its name in core/architecture.h
  /// For which there are kernels. Which ones, the functions of gemm_tiles.h say.
  std::span<const GemmTile> tiles;
  /// What is predicted of a plan for m rows.
  double (*time_us)(const GemmCost&, const GemmPlan&, std::int64_t m, int multiprocessors);
};

/// The row of an architecture: a number of core/architecture.h.
const ArchitecturePlans& plans_of(int architecture);

}  // namespace tilelace::plan
