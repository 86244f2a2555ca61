// SPDX-License-Identifier: Apache-2.0
#include "plan/gemm_reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "core/check.h"
#include "plan/problem.h"
#include "plan/schedules.h"

namespace tilelace::plan {
namespace {

using schedule::ceil_div;
using schedule::Index;
using schedule::SumForm;

// From records of H200s over NVLink (benchmarks/nvidia-h200-tp4), round.
constexpr double kPullBytesPerUs = 240e3;  ///< and direction, from all peers together
constexpr double kLaunchUs = 3;            ///< the second kernel, begun under the first one's end
constexpr double kFlagUs = 3;              ///< until a peer has seen it
constexpr double kDeliverBytesPerUs = 2e6;

constexpr Index kRounds = 4;  ///< chunks of a CTA where there is work enough

void require_problem(const Problem& p) {
  const auto op = name_of(p.op);
  require(p.op != Op::ag_gemm, "{}: op, got {}, expected gemm_rs or gemm_ar", op, op);
  check_problem(p);
  require(p.ranks <= schedule::kMaxSumRanks, "{}: ranks, got {}, expected at most {}", op, p.ranks,
          schedule::kMaxSumRanks);
}

SumForm form_of(const Problem& p, Transport transport) {
  if (p.op == Op::gemm_rs) return SumForm::own_rows;
  return transport == Transport::store ? SumForm::shared_rows : SumForm::all_rows;
}

/// Rows that the busiest rank sums.
Index summed_rows(const Problem& p, Transport transport) {
  const auto borders = borders_of(p);
  return form_of(p, transport) == SumForm::all_rows ? p.m : split_of(p, borders).max_rows();
}

}  // namespace

std::string describe(const GemmReducePlan& plan) {
  return fmt::format("{}, chunks of {} rows, up to {} CTAs{}; {}",
                     plan.transport == Transport::store ? "two shots" : "one shot", plan.chunk_rows,
                     reduce_ctas(plan), plan.wide ? ", partials fp32" : "", describe(plan.gemm));
}

std::ostream& operator<<(std::ostream& out, const GemmReducePlan& plan) {
  return out << describe(plan);
}

double reduce_us(const Problem& p, Transport transport, bool wide) {
  const auto bytes = [&](Index rows) {
    return static_cast<double>(rows * p.n.front()) * static_cast<double>(size_of(p.dtype));
  };
  const Index rows = summed_rows(p, transport);
  const double stored = bytes(rows) * (p.ranks - 1) / kPullBytesPerUs;
  const double pulled = stored * (wide ? 2 : 1);
  if (form_of(p, transport) != SumForm::shared_rows) return kLaunchUs + kFlagUs + pulled;
  return kLaunchUs + 2 * kFlagUs + pulled + stored + bytes(p.m - rows) / kDeliverBytesPerUs;
}

int reduce_ctas(const GemmReducePlan& plan) {
  const GemmTile& t = plan.gemm.tile;
  return std::max(1, plan.gemm.workers * t.cluster() / t.per_sm);
}

std::vector<GemmReducePlan> gemm_reduce_candidates(const Problem& p, const GemmMachine& machine,
                                                   bool wide) {
  require_problem(p);
  require(p.m > 0, "{}: m, got 0, expected rows to plan for", name_of(p.op));
  std::vector<GemmReducePlan> plans;
  for (const GemmPlan& gemm : gemm_candidates({p.m, p.n.front(), p.k, p.dtype}, machine)) {
    if (wide && !can_widen(gemm.tile.name)) continue;
    for (const Transport transport : {Transport::pull, Transport::store}) {
      if (transport == Transport::store && p.op == Op::gemm_rs) continue;
      GemmReducePlan plan{gemm, transport, 1, gemm.predicted_us + reduce_us(p, transport, wide),
                          wide};
      plan.chunk_rows = ceil_div(summed_rows(p, transport), kRounds * machine.multiprocessors);
      plans.push_back(plan);
    }
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const GemmReducePlan& a, const GemmReducePlan& b) {
                     return a.predicted_us < b.predicted_us;
                   });
  return plans;
}

schedule::ReduceRows reduce_rows_schedule(const Problem& p, const GemmReducePlan& plan, int rank) {
  const auto borders = borders_of(p);
  const Index row_units = p.n.front() * static_cast<Index>(size_of(p.dtype)) / 16;
  return schedule::make_reduce_rows(split_of(p, borders), rank, form_of(p, plan.transport),
                                    row_units, plan.chunk_rows, reduce_ctas(plan));
}

std::int64_t gemm_reduce_staging_bytes(const Problem& p, DType partials) {
  require_problem(p);
  const Index elements = p.m * p.n.front();
  const bool apart = p.op == Op::gemm_ar && partials == DType::fp32;
  return elements * static_cast<Index>(size_of(partials) + (apart ? size_of(p.dtype) : 0));
}

}  // namespace tilelace::plan
