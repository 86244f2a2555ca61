// SPDX-License-Identifier: Apache-2.0
// Calls as GPU kernels run them: the planner's own plans (src/plan/gpu), their steps in the orders
// that kernels walk, and what these cost.
#pragma once
#include <vector>

#include "sim/call.h"

namespace tilelace::sim {

/// Whether the machine's devices have kernels for the call, and the method is ours.
bool has_kernels(const MachineModel&, const Call&);

/// Of each kind of plan that the planner has the first ones, or what was asked for. None where no
/// kernel does what is asked.
std::vector<Plan> kernel_plans(const MachineModel&, const Call&, const Choices&);

/// Steps of every rank under a plan of path fused. A worker is a cluster of multiprocessors, or, in
/// pairs, one of them.
std::vector<std::vector<StepList>> record_kernel(const Call&, const Plan&);
/// `stretch`: of products.
Costs kernel_costs(const MachineModel&, const Call&, const Plan&, double stretch);

/// A product, then a kernel that sums what all ranks have.
Outcome product_and_sum(const MachineModel&, const Call&, const Plan&);

}  // namespace tilelace::sim
