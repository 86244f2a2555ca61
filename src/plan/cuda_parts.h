// SPDX-License-Identifier: Apache-2.0
// What plans of GPU ranks have in common, whatever the op.
#pragma once
#include <string>
#include <vector>

#include "plan/kernel_choice.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

inline GemmMachine gemm_machine(const Machine& m) { return {m.multiprocessors, m.shared_device}; }

/// Whether the options leave this tile.
bool wanted(const GemmTile&, const PlanOptions&);

/// The plan of a call without rows.
Plan empty_plan(const Problem&, const PlanOptions&, Path, Transport);

/// Fastest prediction first; of equal ones, as they came.
void sort_by_time(std::vector<KernelWay>&);

/// The plan of the first one, with its reason, which `parts` ends, and with the best of every other
/// kind.
Plan best_of(const Problem&, const std::vector<KernelWay>&, const PlanOptions&,
             const std::string& parts);

/// "push by shard", "store whole", "unfused pull in one shot": path, who moves the bytes, how tiles
/// are cut.
std::string kind_of(Op, const KernelWay&);

/// Every way of an ag_gemm, or of a gemm_rs or gemm_ar, in no order, those that are taken only
/// where they are asked for too, but for nccl (unless `nccl`: those alone) and multimem. Errors:
/// usage.
std::vector<KernelWay> every_gather_way(const Problem&, const Machine&, bool nccl);
std::vector<KernelWay> every_reduce_way(const Problem&, const Machine&);

/// make_cuda_plan of gemm_rs and gemm_ar, for what is legal as far as all ops go.
Plan make_cuda_reduce_plan(const Problem&, const Machine&, const PlanOptions&);
/// Of transport multimem, which the options ask for. Errors: usage (not a gemm_ar, no multicast).
Plan make_cuda_sums_plan(const Problem&, const Machine&, const PlanOptions&);

}  // namespace tilelace::plan
