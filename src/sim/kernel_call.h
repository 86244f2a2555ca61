// SPDX-License-Identifier: Apache-2.0
// Calls as GPU kernels run them: the planner's own plans (src/plan/gpu), their steps in the orders
// that kernels walk, and what these cost.
#pragma once
#include <vector>

#include "sim/call.h"

namespace tilelace::sim {

/// Whether the machine's devices have kernels, and the method is ours.
bool own_kernels_run(const MachineModel&);
/// And whether the call is played as they run it: gemm_ar, several nodes and PCIe trees are not.
bool has_kernels(const MachineModel&, const Call&);

/// The planner's first choice, and those of other kinds that its predictions do not tell from it.
/// None where something is asked for: the schedules alone are played then.
std::vector<Plan> kernel_plans(const MachineModel&, const Call&, const Choices&);

/// Steps of every rank under a plan of path fused. A worker is a cluster of multiprocessors, or, in
/// pairs, one of them.
std::vector<std::vector<StepList>> record_kernel(const Call&, const Plan&);
/// `stretch`: of products.
Costs kernel_costs(const MachineModel&, const Call&, const Plan&, double stretch);

/// A product, then a kernel that sums what all ranks have; noise is as bad as it can be.
Outcome product_and_sum(const MachineModel&, const Call&, const Plan&, const Disturbance&);

}  // namespace tilelace::sim
