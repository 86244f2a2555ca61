// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "check/mutate.h"

namespace tilelace::check {

/// Of a mutant of orders: makes a rank's lists anew, where its call walks such an order. False if
/// that makes the same lists.
bool bend(Mutant mutant, const CallPlan& plan, int rank, std::vector<StepList>& lists);

/// Of a mutant of collectives: rewrites the lists, or makes them anew.
bool bend_exchange(Mutant mutant, const CallPlan& plan, int rank, std::vector<StepList>& lists);

}  // namespace tilelace::check
