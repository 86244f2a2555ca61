// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "tilelace/plan.h"

namespace tilelace::plan {

/// All plans worth comparing: each path, and for the fused one several chunk and block counts.
/// Their `reason` and `rejected` are empty.
std::vector<Plan> candidates(const Problem&, const Machine&, const PlanOptions&);

}  // namespace tilelace::plan
