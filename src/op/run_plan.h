// SPDX-License-Identifier: Apache-2.0
// Calls with a plan instead of options: what benches time and checks draw (plan/gpu/gpu_ways.h).
// The plan is one of the problem's, whole: nothing is planned.
#pragma once
#include "comm/group.h"
#include "tilelace/communicator.h"
#include "tilelace/ops.h"

namespace tilelace::op {

/// As call(); prepared with options that have room for the plan. Collective.
void run_plan(Communicator&, const CallArgs&, const Plan&);

/// The ranks behind it, for what is timed beside calls; as long as it lives.
comm::Group& group_of(const Communicator&);

}  // namespace tilelace::op
