// SPDX-License-Identifier: Apache-2.0
// The calls of a check, with plans and lists. Runs that differ only in actors' order share them.
#pragma once
#include <memory>
#include <vector>

#include "check/call.h"
#include "check/explore.h"
#include "check/record.h"

namespace tilelace::check {

struct PreparedCalls {
  CheckConfig of;  ///< with `resident` and `seed` 0, since these two do not matter
  /// By call; equal calls share a plan.
  std::vector<std::shared_ptr<const CallPlan>> plans;
  /// By call and rank: the lists of its actors.
  std::vector<std::shared_ptr<const std::vector<StepList>>> lists;
  bool mutated = false;
  bool clean = false;  ///< whether a run of these calls had no findings
};

/// Errors: those of CallPlan.
PreparedCalls prepare(const CheckConfig&);

}  // namespace tilelace::check
