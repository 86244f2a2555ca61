// SPDX-License-Identifier: Apache-2.0
// The planner of each op on GPU ranks, one row per op.
#pragma once
#include <string>
#include <vector>

#include "plan/gpu/kernel_choice.h"
#include "plan/gpu/staging.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

struct Planner {
  /// Makes the plan. The caller has checked the problem and the options common to all ops. Errors:
  /// usage.
  Plan (*make)(const Problem&, const Machine&, const PlanOptions&);
  /// All candidates, unsorted. Candidates that need libnccl or an NVLink switch are included only
  /// if `kinds` names their kind. m > 0.
  std::vector<KernelWay> (*every)(const Problem&, const Machine&,
                                  const std::vector<std::string>& kinds);
  /// What a slot must hold for calls of up to m rows with any kind of plan and tile of the
  /// architecture. `copied`: whether CopiedPartialsWay is one of these kinds.
  Staging (*staging)(const Problem&, int architecture, bool copied);
};

/// The planner of an op without kernels. Each of its functions throws a usage error.
extern const Planner kNoPlanner;
/// Each of these is defined in the file of its op.
extern const Planner kAgGemmPlanner, kGemmRsPlanner, kGemmArPlanner;

const Planner& planner_of(Op);

}  // namespace tilelace::plan
