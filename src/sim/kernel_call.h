// SPDX-License-Identifier: Apache-2.0
// Simulates calls as this library's GPU kernels run them: with the planner's own plans
// (src/plan/gpu), steps in the kernels' order, and the kernels' costs.
#pragma once
#include <optional>
#include <vector>

#include "sim/call.h"

namespace tilelace::sim {

/// The row of core/architecture.h whose kernels run on the machine's devices; empty if no row fits.
std::optional<int> architecture_of_machine(const MachineModel&);
/// Whether there are kernels for the machine's devices, and the machine's costs (Method) are those
/// of this library.
bool own_kernels_run(const MachineModel&);
/// Whether own_kernels_run holds and the simulator can run this call as kernels do. The call must
/// not be a gemm_ar; it needs one node, several ranks, no PCIe tree and sizes that kernels take.
bool has_kernels(const MachineModel&, const Call&);

/// The planner's best plan that can be simulated, and plans of other kinds predicted within 5 % of
/// it. Empty if the user fixed a choice; fused_plans (sim/call.h) then makes its own plans.
std::vector<Plan> kernel_plans(const MachineModel&, const Call&, const Choices&);

/// The steps of every rank with a fused plan. A worker is a cluster; in a plan with `pairs`, where
/// a cluster has tiles of two shards, a worker is one SM.
std::vector<std::vector<StepList>> record_kernel(const Call&, const Plan&);
/// The costs of the plan's verbs. `stretch`: factor on GEMM times.
Costs kernel_costs(const MachineModel&, const Call&, const Plan&, double stretch);

/// Simulates a GEMM followed by a kernel that sums over all ranks. Each disturbance delays every
/// rank in full, since all ranks wait for the slowest rank.
Outcome product_and_sum(const MachineModel&, const Call&, const Plan&, const Disturbance&);

}  // namespace tilelace::sim
