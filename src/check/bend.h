// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "check/mutate.h"

namespace tilelace::check {

/// For a mutant (mutate.h) of the order in which kernels walk tiles, rebuilds a rank's step lists
/// from the faulty order. Returns false if the call has no such order or the lists stay the same.
bool bend(Mutant mutant, const CallPlan& plan, int rank, std::vector<StepList>& lists);

/// The same for mutants of collectives: rewrites the lists or rebuilds them from a faulty schedule.
bool bend_exchange(Mutant mutant, const CallPlan& plan, int rank, std::vector<StepList>& lists);

}  // namespace tilelace::check
