// SPDX-License-Identifier: Apache-2.0
// The plan for a problem from a table of measured plans.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "plan/tuning/tuning_table.h"

namespace tilelace::plan {

/// The distance between two sizes, as a number of doublings: |log2(a / b)|.
double size_factor(std::int64_t a, std::int64_t b);

/// Distance of a row from a problem: size_factor of m, plus that of n (all weights together), plus
/// that of k.
double tuning_distance(const Problem& row, const Problem& asked);

/// Rows beyond this distance are no better than predictions (figures in docs/tuning.md).
inline constexpr double kFarthestRow = 0.25;

/// Whether this chain of tables has a row of this problem (any dtype of its size) for this machine.
bool has_own_row(const TuningTable*, const Problem&, const Machine&);

/// The plan of the problem's own row, in this table or one chained to it. Without such a row: a
/// plan with the kind and tile of the nearest row and, if possible, that row's walk and split-k; of
/// several, the one predicted fastest. The reason names the row. Empty if no row is near or no
/// table fits this machine. The result is always one of the planner's own candidates.
std::optional<Plan> tuned_plan(const TuningTable&, const Problem&, const Machine&);

/// Why a table, and the tables chained to it, have no row for a call on this machine.
std::string why_not_tuned(const TuningTable&, const Machine&);

/// The plan for GPU ranks: from the machine's table if no option is set and the table has a plan,
/// else by prediction. The reason says which. The problem must be valid. Errors: as make_cuda_plan.
Plan tuned_or_predicted(const Problem&, const Machine&, const PlanOptions&);

}  // namespace tilelace::plan
