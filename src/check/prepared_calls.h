// SPDX-License-Identifier: Apache-2.0
// The calls of a check with their plans and lists of steps, for all runs of the same calls.
#pragma once
#include <memory>
#include <vector>

#include "check/call.h"
#include "check/explore.h"
#include "check/record.h"

namespace tilelace::check {

struct PreparedCalls {
  CheckConfig of;  ///< the checked configuration, with `resident` and `seed` set to 0
  /// One plan for each call; equal calls share a plan.
  std::vector<std::shared_ptr<const CallPlan>> plans;
  /// The actors' lists of steps, in order of calls, then ranks.
  std::vector<std::shared_ptr<const std::vector<StepList>>> lists;
  bool mutated = false;
  bool clean = false;  ///< whether a run of these calls had no findings
};

/// Errors: those of CallPlan.
PreparedCalls prepare(const CheckConfig&);

}  // namespace tilelace::check
