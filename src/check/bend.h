// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "check/mutate.h"

namespace tilelace::check {

/// For mutants of orders: rebuilds a rank's lists where its call walks such an order. False if that
/// gives the same lists.
bool bend(Mutant mutant, const CallPlan& plan, int rank, std::vector<StepList>& lists);

/// For mutants of collectives: rewrites the lists, or rebuilds them.
bool bend_exchange(Mutant mutant, const CallPlan& plan, int rank, std::vector<StepList>& lists);

}  // namespace tilelace::check
