// SPDX-License-Identifier: Apache-2.0
// What public plans of GPU ranks have in common, whatever the op.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/gemm.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

inline GemmMachine gemm_machine(const Machine& m) { return {m.multiprocessors, m.shared_device}; }

/// Whether the options leave this tile.
bool wanted(const GemmTile&, const PlanOptions&);

/// Tile, workers and kernel; `tiles`: of the first weight's product.
Plan plan_of(const Problem&, const GemmPlan&, int tiles);
/// What plan_of was made of; empty where the plan has no kernel.
GemmPlan gemm_plan_of(const Plan&);

/// The plan of a call without rows.
Plan empty_plan(const Problem&, const PlanOptions&, Path, Transport);

/// "fastest of 12 plans, predicted 10.0 us": what a reason begins with.
std::string reason_of(const PlanOptions&, std::size_t plans, double predicted_us);

/// The best of every kind but the first one's, with its time. `all`: fastest first.
template <class Candidate>
std::vector<std::string> rejected_of(const std::vector<Candidate>& all,
                                     std::string (*kind_of)(const Candidate&)) {
  std::vector<std::string> kinds{kind_of(all.front())}, texts;
  for (const Candidate& c : all) {
    const std::string kind = kind_of(c);
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) continue;
    kinds.push_back(kind);
    texts.push_back(
        fmt::format("{}: predicted {:.1f} us ({})", kind, c.predicted_us, describe(c.gemm)));
  }
  return texts;
}

/// A legal plan, and how long it should take.
struct TimedPlan {
  Plan plan;
  double predicted_us = 0;
};
/// Every plan of an ag_gemm, or of a gemm_rs or gemm_ar, in no order, those that are taken only
/// where they are asked for too, but for nccl (unless `nccl`: those alone) and multimem. Errors:
/// usage.
std::vector<TimedPlan> every_gather_plan(const Problem&, const Machine&, bool nccl);
std::vector<TimedPlan> every_reduce_plan(const Problem&, const Machine&);

/// make_cuda_plan of gemm_rs and gemm_ar, for what is legal as far as all ops go.
Plan make_cuda_reduce_plan(const Problem&, const Machine&, const PlanOptions&);

/// What a slot holds on each rank, whichever way calls of the op go.
void tell_sum_staging(const Problem&, Plan&);
/// Of transport multimem, which the options ask for. Errors: usage (not a gemm_ar, no multicast).
Plan make_cuda_sums_plan(const Problem&, const Machine&, const PlanOptions&);

}  // namespace tilelace::plan
