// SPDX-License-Identifier: Apache-2.0
// The plan that a table of measurements has for a problem.
#pragma once
#include <optional>

#include "plan/tuning/tuning_table.h"

namespace tilelace::plan {

/// How far a row is from a problem: the factors between their m, n (of all weights) and k, each as
/// a power of two, added up.
double tuning_distance(const Problem& row, const Problem& asked);

/// Beyond it a row says no more than predictions do (docs/tuning.md has the figures).
inline constexpr double kFarthestRow = 0.25;

/// Whether a table, or one behind it, has a row of this very problem that this machine takes.
bool has_own_row(const TuningTable*, const Problem&, const Machine&);

/// The plan of the problem's own row, of this table or else of those behind it; else, of the
/// nearest row whose kind and tile the problem has plans of, the one with the fastest prediction,
/// walked and split as the row's. Its reason names the row. None: nothing near is in the table, or
/// it is not of this machine. Every plan that comes back is one of the planner's own candidates.
std::optional<Plan> tuned_plan(const TuningTable&, const Problem&, const Machine&);

/// The plan of GPU ranks: the machine's table's where nothing is asked for and it has one, else the
/// prediction; the reason says which. The problem is well-formed. Errors: as make_cuda_plan.
Plan tuned_or_predicted(const Problem&, const Machine&, const PlanOptions&);

}  // namespace tilelace::plan
