// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "check/mutate.h"

namespace tilelace::check {

/// For mutants of kernels' orders: rebuilds a rank's lists from an order with the mutant's fault.
/// Returns false if the call has no such order or the lists stay the same.
bool bend(Mutant mutant, const CallPlan& plan, int rank, std::vector<StepList>& lists);

/// The same for mutants of collectives, which rewrite or rebuild the lists.
bool bend_exchange(Mutant mutant, const CallPlan& plan, int rank, std::vector<StepList>& lists);

}  // namespace tilelace::check
