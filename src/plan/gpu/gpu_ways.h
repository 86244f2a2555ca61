// SPDX-License-Identifier: Apache-2.0
// All plans that GPU ranks have for a problem, by kind: for benches, which time them, and tests,
// which pick some at random. The planner's own choice is one of them.
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

/// Fastest prediction first; m > 0. `kinds`: only these, if the problem has any of them; otherwise
/// all but those that need something special: "nccl by shard" needs libnccl, "multimem" a switch.
/// Not part of a plan: gemm_ar stores straight into the peers' results if these are in symmetric
/// memory. Errors: usage (a problem without plans, an unknown kind).
std::vector<CudaWay> cuda_ways(const Problem&, const Machine&,
                               const std::vector<std::string>& kinds = {});

/// "push by shard", "store whole", "unfused pull in one shot": path, transport, and how tiles are
/// cut. Without a kernel: "no rows".
std::string kind_of(const Plan&);
/// All kinds.
const std::vector<std::string>& known_kinds();

}  // namespace tilelace::plan
