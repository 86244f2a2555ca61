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

/// Distance of a row from a problem: the sum of size_factor for m, for n (of all weights together)
/// and for k.
double tuning_distance(const Problem& row, const Problem& asked);

/// A row beyond this distance gives no better plan than a prediction (figures in docs/tuning.md).
inline constexpr double kFarthestRow = 0.25;

/// Whether the chain of tables has this problem, in any dtype of equal size, for this machine.
bool has_own_row(const TuningTable*, const Problem&, const Machine&);

/// The plan of the problem's own row in the chain of tables. If there is no such row, the plan has
/// the kind and tile of the nearest row and, if possible, that row's order of tiles and split-k. If
/// several plans have these, the fastest prediction is taken. Plan::reason names the row. The plan
/// is one of the planner's candidates. Empty if no row is near or no table fits this machine.
std::optional<Plan> tuned_plan(const TuningTable&, const Problem&, const Machine&);

/// Why a table, and the tables chained to it, have no row for a call on this machine.
std::string why_not_tuned(const TuningTable&, const Machine&);

/// The plan for GPU ranks: the plan of the machine's table if it has one and no option is set, else
/// the predicted plan (see Plan::reason). The problem must be valid. Errors: as make_cuda_plan.
Plan tuned_or_predicted(const Problem&, const Machine&, const PlanOptions&);

}  // namespace tilelace::plan
