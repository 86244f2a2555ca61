// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "tilelace/plan.h"

namespace tilelace::plan {

/// All plans of CPU ranks worth comparing: one per path, but several for path fused, with different
/// numbers of chunks and blocks. `reason` and `rejected` are empty.
std::vector<Plan> candidates(const Problem&, const Machine&, const PlanOptions&);

}  // namespace tilelace::plan
