// SPDX-License-Identifier: Apache-2.0
// Calls with a whole plan instead of options: for benches that time plans and checks that pick them
// at random (plan/gpu/gpu_ways.h). The plan must be one of the problem's.
#pragma once
#include "comm/group.h"
#include "tilelace/communicator.h"
#include "tilelace/ops.h"

namespace tilelace::op {

/// As call(), with this plan; prepare with options that have room for it. Collective.
void run_plan(Communicator&, const CallArgs&, const Plan&);

/// The group of a communicator, for timing beside its calls; valid as long as the communicator.
comm::Group& group_of(const Communicator&);

}  // namespace tilelace::op
