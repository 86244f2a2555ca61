// SPDX-License-Identifier: Apache-2.0
#include "plan/ways/copied_partials_way.h"

#include <algorithm>

#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/base/schedules.h"
#include "plan/gemm/architecture_plans.h"
#include "tilelace/op_table.h"

namespace tilelace::plan {
namespace {

using schedule::ceil_div;
using schedule::Index;

constexpr Index kCopiedRounds = 4;  ///< chunks of a CTA where there is work enough

void require_copied(const Problem& p) {
  require(p.op == Op::gemm_rs, "gemm_rs: op: got {}, expected gemm_rs", name_of(p.op));
  check_problem(p);
  require(p.ranks <= schedule::kMaxGpuRanks, "gemm_rs: ranks: got {}, expected at most {}", p.ranks,
          schedule::kMaxGpuRanks);
}

Index max_rows(const Problem& p) {
  const auto borders = borders_of(p);
  return split_of(p, borders).max_rows();
}

double predict(const Problem& p, const GemmPlan& gemm, const Hardware& h) {
  const double moved = sent_us(h, static_cast<double>((p.ranks - 1) * copied_pitch(p)));
  // A shard's copies go under the next ones' products; the last one's do not.
  return std::max(p.ranks * gemm.predicted_us, gemm.predicted_us + moved) + h.copy_us + h.call_us +
         2 * h.flag_us;
}

}  // namespace

bool copies_partials(Op op, std::optional<Path> path) {
  return row_of(op).scatters() && path == Path::medium;
}

int tiles_of(const CopiedPartialsWay& plan, const Problem& p) {
  return work_of(plan.gemm, {max_rows(p), p.n.front(), p.k, p.dtype}).order.tiles();
}

std::vector<CopiedPartialsWay> copied_partials_candidates(const Problem& p,
                                                          const GemmMachine& machine) {
  require_copied(p);
  require(p.m > 0, "gemm_rs: m: got 0, expected at least 1 row to plan for");
  const Index rows = max_rows(p);
  const Index chunk = ceil_div(rows, kCopiedRounds * machine.multiprocessors);
  std::vector<CopiedPartialsWay> plans;
  for (const GemmPlan& gemm : gemm_candidates({rows, p.n.front(), p.k, p.dtype}, machine)) {
    // Shards may have fewer rows than the plan, and shared k-steps are dealt to all workers.
    if (gemm.split_tiles != 0) continue;
    plans.push_back({gemm, chunk, predict(p, gemm, hardware_of(machine))});
  }
  std::ranges::stable_sort(plans, {}, &CopiedPartialsWay::predicted_us);
  return plans;
}

schedule::ReduceRows copied_rows_schedule(const Problem& p, const CopiedPartialsWay& plan,
                                          int rank) {
  const auto borders = borders_of(p);
  const GemmTile& t = plan.gemm.tile;
  const int ctas = std::max(1, plan.gemm.workers * t.cluster() / t.per_sm);
  return schedule::make_reduce_rows(
      split_of(p, borders), rank, schedule::SumForm::own_rows, row_bytes(p) / 16,
      schedule::chunk_of_rows(plan.chunk_rows, row_bytes(p) / 16), ctas);
}

std::int64_t copied_pitch(const Problem& p) { return max_rows(p) * row_bytes(p); }

std::int64_t copied_staging_bytes(const Problem& p) {
  require_copied(p);
  return p.m * row_bytes(p) + (p.ranks - 1) * copied_pitch(p);
}

}  // namespace tilelace::plan
