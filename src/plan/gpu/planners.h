// SPDX-License-Identifier: Apache-2.0
// What each op says to who plans for GPU ranks, a row an op.
#pragma once
#include <string>
#include <vector>

#include "plan/gpu/kernel_choice.h"
#include "plan/gpu/staging.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

struct Planner {
  /// The plan; the problem and what all ops' options have in common are checked. Errors: usage.
  Plan (*make)(const Problem&, const Machine&, const PlanOptions&);
  /// Every way, in no order; those that a machine must be asked for where `kinds` name them. m > 0.
  std::vector<KernelWay> (*every)(const Problem&, const Machine&,
                                  const std::vector<std::string>& kinds);
  /// What a slot holds, whichever way calls up to m rows go, with whichever of the architecture's
  /// tiles; `hands`: also ways of HandWay.
  Staging (*staging)(const Problem&, int architecture, bool hands);
};

/// Of an op without kernels: refuses. Errors: usage.
extern const Planner kNoPlanner;
/// Each in the file of its op.
extern const Planner kAgGemmPlanner, kGemmRsPlanner, kGemmArPlanner;

const Planner& planner_of(Op);

}  // namespace tilelace::plan
