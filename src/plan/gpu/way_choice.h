// SPDX-License-Identifier: Apache-2.0
// Parts that plans of all ops on GPU ranks share.
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

/// Sorts candidates by predicted time, the fastest first. Equal ones keep their order.
void sort_by_time(std::vector<KernelWay>&);

/// The plan of the first candidate. Its reason ends with `parts`. The best candidate of every other
/// kind is listed as rejected.
Plan best_of(const Problem&, const std::vector<KernelWay>&, const PlanOptions&,
             const std::string& parts);

/// "push by shard", "store whole", "unfused pull in one shot": path, transport, and how tiles are
/// cut.
std::string kind_of(Op, const KernelWay&);

/// Whether one of these names of kinds is of this transport.
bool named(const std::vector<std::string>& kinds, std::string_view transport);

}  // namespace tilelace::plan
