// SPDX-License-Identifier: Apache-2.0
// Calls as GPU kernels run them: the planner's own plans (src/plan/gpu), their steps in the
// kernels' order, and their costs.
#pragma once
#include <optional>
#include <vector>

#include "sim/call.h"

namespace tilelace::sim {

/// The architecture whose kernels the machine's devices have, if any.
std::optional<int> architecture_of_machine(const MachineModel&);
/// Whether there are kernels for the machine's devices and its costs (Method) are of this library.
bool own_kernels_run(const MachineModel&);
/// The same, and the call can be simulated as kernels run it: gemm_ar, several nodes and PCIe trees
/// cannot.
bool has_kernels(const MachineModel&, const Call&);

/// The planner's first choice, and plans of other kinds with nearly the same prediction. None if
/// the user asked for something: then only the plain schedules are simulated.
std::vector<Plan> kernel_plans(const MachineModel&, const Call&, const Choices&);

/// Steps of every rank under a fused plan. A worker is a cluster of SMs; if clusters lie across two
/// shards (`pairs`), a worker is one SM.
std::vector<std::vector<StepList>> record_kernel(const Call&, const Plan&);
/// `stretch`: factor on GEMM times.
Costs kernel_costs(const MachineModel&, const Call&, const Plan&, double stretch);

/// A GEMM, then a kernel that sums over all ranks; noise at its worst case.
Outcome product_and_sum(const MachineModel&, const Call&, const Plan&, const Disturbance&);

}  // namespace tilelace::sim
