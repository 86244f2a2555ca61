// SPDX-License-Identifier: Apache-2.0
// All plans for a problem on GPU ranks, by kind. Benches time all of these plans; tests pick some
// at random. The planner's own choice is one of the plans.
#pragma once
#include <string>
#include <vector>

#include "tilelace/plan.h"

namespace tilelace::plan {

/// A plan, its kind, and its predicted time.
struct CudaWay {
  Plan plan;
  std::string kind;
  double predicted_us = 0;
};

/// The plans of these kinds, fastest prediction first; m > 0. If `kinds` is empty, or no plan is of
/// these kinds, returns all kinds except "nccl by shard", which needs libnccl, and "multimem",
/// which needs an NVLink switch. A gemm_ar call stores directly into the peers' results if these
/// are in symmetric memory. Errors: usage (a problem without plans, an unknown kind).
std::vector<CudaWay> cuda_ways(const Problem&, const Machine&,
                               const std::vector<std::string>& kinds = {});

/// A plan's kind ("push by shard", "store whole", "unfused pull in one shot") says its path, its
/// transport and how its tiles are cut. The kind of a plan without a kernel is "no rows".
std::string kind_of(const Plan&);
/// The names of all kinds.
const std::vector<std::string>& known_kinds();

}  // namespace tilelace::plan
