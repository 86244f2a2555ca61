// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "tilelace/plan.h"

namespace tilelace::plan {

/// The plans of CPU ranks that the planner compares: one for each path, but several for path fused,
/// with different numbers of chunks and blocks. The plans' `reason` and `rejected` are empty.
std::vector<Plan> candidates(const Problem&, const Machine&, const PlanOptions&);

}  // namespace tilelace::plan
