// SPDX-License-Identifier: Apache-2.0
// All plans that GPU ranks have for a problem, by kind: what benches time and checks draw from. The
// planner's own choice is one of them.
#pragma once
#include <string>
#include <vector>

#include "tilelace/plan.h"

namespace tilelace::plan {

/// A plan, what it is called among others, and how long it should take.
struct CudaWay {
  Plan plan;
  std::string kind;
  double predicted_us = 0;
};

/// Fastest prediction first; m > 0. `kinds`: those alone, where the problem has any of them, else
/// (or with none given) all but what a machine must be asked for: "nccl by shard" needs libnccl,
/// "multimem" a switch. Whether a gemm_ar's results go straight to peers is up to where they lie.
/// Errors: usage (a problem that has no plan, a kind that nobody knows).
std::vector<CudaWay> cuda_ways(const Problem&, const Machine&,
                               const std::vector<std::string>& kinds = {});

/// "push by shard", "store whole", "unfused pull in one shot": path, who moves the bytes, how tiles
/// are cut. Without a kernel: "no rows".
std::string kind_of(const Plan&);
/// All that there are.
const std::vector<std::string>& known_kinds();

}  // namespace tilelace::plan
