// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "tilelace/plan.h"

namespace tilelace::plan {

/// The plans of CPU ranks that the planner compares. Path fused has several plans, with different
/// numbers of chunks and blocks; each other path has one. All `reason` and `rejected` are empty.
std::vector<Plan> candidates(const Problem&, const Machine&, const PlanOptions&);

}  // namespace tilelace::plan
