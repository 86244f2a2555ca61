// SPDX-License-Identifier: Apache-2.0
// A simulated call: its Problem, the plans worth trying, and the simulation of one plan.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sim/gemm_model.h"
#include "sim/machine.h"
#include "sim/run.h"
#include "tilelace/plan.h"

namespace tilelace::sim {

/// The simulated call. problem.ranks is the whole group; `local` of them share a node.
struct Call {
  Problem problem;
  int local = 1;
};

/// The call of a problem. Its weights are joined into one, since several weights with one gather
/// are one GEMM.
Call call_of(Problem problem, int local);

/// Throws a usage error unless the machine can run this call.
void check_call(const MachineModel&, const Call&);

/// The GEMM of one rank.
Product product_of(const Problem&);

/// Choices that a user may fix. All values of the other choices are tried.
struct Choices {
  std::optional<RouteKind> route;
  std::optional<Transport> transport;
  std::optional<std::int64_t> chunk_rows;
  std::optional<int> blocks;
  std::optional<Tile> tile;
};

/// Fused plans worth trying on this machine, at least one. Errors: usage, if a fixed choice is not
/// possible for the call.
std::vector<Plan> fused_plans(const MachineModel&, const Call&, const Choices& = {});
/// One plan of path medium per route. A plan has one GEMM per shard, which runs after the shard's
/// rows have arrived (ag_gemm) or before the shard's partials are sent.
std::vector<Plan> medium_plans(const MachineModel&, const Call&, const Choices& = {});

/// The steps of every rank with this plan.
std::vector<std::vector<StepList>> record_call(const Call&, const Plan&);
/// The costs of the plan's verbs. `stretch`: factor on GEMM times.
Costs costs_of(const MachineModel&, const Call&, const Plan&, double stretch = 1);

/// Simulates the call at the clock of the GEMM alone, then at the clock that power allows. Waiting
/// SMs raise that clock; busy links lower it. Path unfused: adds the times of the GEMM and the sum.
Outcome simulate(const MachineModel&, const Call&, const Plan&, const Disturbance& = {},
                 bool with_spans = false);

}  // namespace tilelace::sim
