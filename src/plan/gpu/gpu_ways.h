// SPDX-License-Identifier: Apache-2.0
// All plans for a problem on GPU ranks, by kind: for benches, which time them, and tests, which
// pick some at random. The planner's own choice is one of them.
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

/// The plans, the best predicted first; m > 0. `kinds`: plans of these kinds only. If empty, or if
/// the problem has none of them: all kinds except "nccl by shard", which needs libnccl, and
/// "multimem", which needs an NVLink switch. A gemm_ar call stores directly into the peers' results
/// if they are in symmetric memory. Errors: usage (a problem without plans, an unknown kind).
std::vector<CudaWay> cuda_ways(const Problem&, const Machine&,
                               const std::vector<std::string>& kinds = {});

/// "push by shard", "store whole", "unfused pull in one shot": path, transport, and how tiles are
/// cut. A plan without a kernel: "no rows".
std::string kind_of(const Plan&);
/// The names of all kinds.
const std::vector<std::string>& known_kinds();

}  // namespace tilelace::plan
