// SPDX-License-Identifier: Apache-2.0
// What the planners of all ops on GPU ranks share.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "plan/gpu/kernel_choice.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

inline GemmMachine gemm_machine(const Machine& m) {
  return {m.multiprocessors, m.shared_device, m.architecture, m.memory_bytes_per_s * 1e-9,
          m.cublas};
}

/// Whether the options allow this tile.
bool wanted(const GemmTile&, const PlanOptions&);

/// The plan of a call without rows.
Plan empty_plan(const Problem&, const Machine&, const PlanOptions&, Path, Transport);

/// Sorts candidates by predicted time, fastest first. Candidates with equal times keep their order.
void sort_by_time(std::vector<KernelWay>&);

/// The plan of the first candidate. `parts` ends the plan's reason. The plan's list `rejected` has
/// the first candidate of every other kind.
Plan best_of(const Problem&, const std::vector<KernelWay>&, const PlanOptions&,
             const std::string& parts);

/// A candidate's kind ("push by shard", "store whole", "unfused pull in one shot") says its path,
/// its transport and how its tiles are cut.
std::string kind_of(Op, const KernelWay&);

/// Whether the name of any of these kinds contains the transport's name.
bool named(const std::vector<std::string>& kinds, std::string_view transport);

}  // namespace tilelace::plan
