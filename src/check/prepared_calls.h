// SPDX-License-Identifier: Apache-2.0
// Plans and lists of the calls of a check, which runs in other orders share.
#pragma once
#include <memory>
#include <vector>

#include "check/call.h"
#include "check/explore.h"
#include "check/record.h"

namespace tilelace::check {

struct PreparedCalls {
  CheckConfig of;  ///< but for residency and seed
  /// By call; equal calls share one.
  std::vector<std::shared_ptr<const CallPlan>> plans;
  /// By call and rank: the lists of its actors.
  std::vector<std::shared_ptr<const std::vector<StepList>>> lists;
  bool mutated = false;
  bool clean = false;  ///< a run of them had no findings
};

/// Errors: those of CallPlan.
PreparedCalls prepare(const CheckConfig&);

}  // namespace tilelace::check
