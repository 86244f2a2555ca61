// SPDX-License-Identifier: Apache-2.0
// Simulates calls as our GPU kernels run them: the planner's own plans (src/plan/gpu), their steps
// in the kernels' order, and their costs.
#pragma once
#include <optional>
#include <vector>

#include "sim/call.h"

namespace tilelace::sim {

/// The architecture whose kernels the machine's devices have, if any.
std::optional<int> architecture_of_machine(const MachineModel&);
/// Whether there are kernels for the machine's devices, and the machine's costs (Method) are those
/// of this library.
bool own_kernels_run(const MachineModel&);
/// Whether own_kernels_run, and the simulator can play this call as kernels run it: no gemm_ar, one
/// node, no PCIe tree, and sizes that kernels take.
bool has_kernels(const MachineModel&, const Call&);

/// The planner's first choice that can be played, and plans of other kinds whose predictions are
/// nearly as good. None if the user fixed a choice; then only the plain schedules are simulated.
std::vector<Plan> kernel_plans(const MachineModel&, const Call&, const Choices&);

/// The steps of every rank with a fused plan. A worker is a cluster of SMs. If a cluster has tiles
/// of two shards (`pairs`), a worker is one SM.
std::vector<std::vector<StepList>> record_kernel(const Call&, const Plan&);
/// The costs of the plan's verbs. `stretch`: factor on GEMM times.
Costs kernel_costs(const MachineModel&, const Call&, const Plan&, double stretch);

/// Simulates a GEMM followed by a kernel that sums over all ranks. Every disturbance counts in
/// full, on every rank.
Outcome product_and_sum(const MachineModel&, const Call&, const Plan&, const Disturbance&);

}  // namespace tilelace::sim
