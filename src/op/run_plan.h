// SPDX-License-Identifier: Apache-2.0
// Makes calls with a given plan instead of options. For benches, which time plans, and for checks,
// which pick plans at random (plan/gpu/gpu_ways.h). The plan must be one for the call's problem.
#pragma once
#include "comm/group.h"
#include "tilelace/communicator.h"
#include "tilelace/ops.h"

namespace tilelace::op {

/// Like call(), but with this plan, for which the prepared staging must have room. Collective.
void run_plan(Communicator&, const CallArgs&, const Plan&);

/// The communicator's group, with which benches synchronise ranks between calls. Valid as long as
/// the communicator.
comm::Group& group_of(const Communicator&);

}  // namespace tilelace::op
