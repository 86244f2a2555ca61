// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "check/mutate.h"

namespace tilelace::check {

/// For mutants of kernels' orders: rebuilds a rank's lists from an order with a fault. Returns
/// false if the call has no such order or the lists stay the same.
bool bend(Mutant mutant, const CallPlan& plan, int rank, std::vector<StepList>& lists);

/// For mutants of collectives: rewrites or rebuilds the lists.
bool bend_exchange(Mutant mutant, const CallPlan& plan, int rank, std::vector<StepList>& lists);

}  // namespace tilelace::check
