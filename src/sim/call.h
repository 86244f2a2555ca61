// SPDX-License-Identifier: Apache-2.0
// A call on a machine: Problem and Plan as the backends know them, the plans worth trying, and what
// one of them takes.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sim/gemm_model.h"
#include "sim/machine.h"
#include "sim/run.h"
#include "tilelace/plan.h"

namespace tilelace::sim {

/// What is simulated. problem.ranks is the whole group; `local` of them share a node.
struct Call {
  Problem problem;
  int local = 1;
};

/// The call of a problem, its weights joined to one: several on one gather are one product.
Call call_of(Problem problem, int local);

/// Throws a usage error unless the machine can hold such a call.
void check_call(const MachineModel&, const Call&);

/// The product of one rank.
Product product_of(const Problem&);

/// Choices a user may pin; empty ones are tried.
struct Choices {
  std::optional<RouteKind> route;
  std::optional<Transport> transport;
  std::optional<std::int64_t> chunk_rows;
  std::optional<int> blocks;
  std::optional<Tile> tile;
};

/// Fused plans worth trying on this machine, at least one. Errors: usage, when a pinned choice is
/// not legal for the call.
std::vector<Plan> fused_plans(const MachineModel&, const Call&, const Choices& = {});
/// One product a shard, each as soon as its rows are here, over each route worth trying.
std::vector<Plan> medium_plans(const MachineModel&, const Call&, const Choices& = {});

/// Steps of every rank under this plan.
std::vector<std::vector<StepList>> record_call(const Call&, const Plan&);
/// `stretch`: of the products.
Costs costs_of(const MachineModel&, const Call&, const Plan&, double stretch = 1);

/// Plays the call at the clock that the product alone has, then again at the one that power leaves
/// it: more where multiprocessors wait, less where links are busy.
Outcome simulate(const MachineModel&, const Call&, const Plan&, const Disturbance& = {},
                 bool with_spans = false);

}  // namespace tilelace::sim
