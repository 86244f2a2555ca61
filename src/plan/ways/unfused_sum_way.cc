// SPDX-License-Identifier: Apache-2.0
#include "plan/ways/unfused_sum_way.h"

#include <algorithm>

#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/base/schedules.h"
#include "plan/gemm/architecture_plans.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace::plan {
namespace {

using schedule::ceil_div;
using schedule::Index;
using schedule::SumForm;

/// Partials that are pushed lie in the slot twice; with many rows other plans are as fast.
constexpr Index kMostPushedBytes = Index{16} << 20, kMostOneShotBytes = Index{1} << 20;
constexpr Index kMostTwoShotBytes = Index{9} << 20;
constexpr Index kLeastChunkUnits = 128, kUnitGrain = 8;

constexpr Index kRounds = 4;  ///< chunks of a CTA where there is work enough

void require_sum(const Problem& p) {
  const auto op = name_of(p.op);
  require(row_of(p.op).sums, "{}: op, got {}, expected one that sums", op, op);
  check_problem(p);
  require(p.ranks <= schedule::kMaxGpuRanks, "{}: ranks, got {}, expected at most {}", op, p.ranks,
          schedule::kMaxGpuRanks);
}

SumForm form_of(const Problem& p, bool shared) {
  if (row_of(p.op).scatters()) return SumForm::own_rows;
  return shared ? SumForm::shared_rows : SumForm::all_rows;
}

SumForm form_of(const Problem& p, const UnfusedSumWay& plan) {
  return form_of(p, row_of(plan.transport).by_workers() ||
                        (row_of(plan.transport).pushes() && plan.shots == 2));
}

/// Rows that the busiest rank sums.
Index summed_rows(const Problem& p, SumForm form) {
  const auto borders = borders_of(p);
  return form == SumForm::all_rows ? p.m : split_of(p, borders).max_rows();
}

/// Of a partial that is pushed.
Index most_bytes(Op op, int shots) {
  if (row_of(op).scatters()) return kMostPushedBytes;
  return shots == 1 ? kMostOneShotBytes : kMostTwoShotBytes;
}

/// Whether staging has room for it: shards that differ much take more of it than even ones.
bool may_push(const Problem& p, int shots) {
  if (shots == 2 && (row_of(p.op).scatters() || p.ranks == 1)) return false;
  Problem even = p;
  even.rows.clear();
  return p.m * row_bytes(p) <= most_bytes(p.op, shots) &&
         pushed_pitch(p, shots) <= pushed_pitch(even, shots);
}

/// One partial, and what peers push, of as many rows as are pushed at most.
Index most_pushed_bytes(const Problem& given, int shots) {
  Problem p = given;
  p.rows.clear();
  p.m = std::min(p.m, most_bytes(p.op, shots) / row_bytes(p));
  return p.m * row_bytes(p) + (p.ranks - 1) * pushed_pitch(p, shots);
}

}  // namespace

int tiles_of(const UnfusedSumWay& plan, const Problem& p) {
  return work_of(plan.gemm, {p.m, p.n.front(), p.k, p.dtype}).order.tiles();
}

double reduce_us(const Problem& p, const UnfusedSumWay& plan, const Hardware& h) {
  const SumForm form = form_of(p, plan);
  const double shot =
      sent_us(h, static_cast<double>(summed_rows(p, form) * row_bytes(p) * (p.ranks - 1)));
  const int shots = form == SumForm::shared_rows ? 2 : 1;
  return h.call_us + shots * (h.flag_us + shot);
}

int reduce_ctas(const UnfusedSumWay& plan) {
  const GemmTile& t = plan.gemm.tile;
  return std::max(1, plan.gemm.workers * t.cluster() / t.per_sm);
}

std::vector<UnfusedSumWay> gemm_reduce_candidates(const Problem& p, const GemmMachine& machine) {
  require_sum(p);
  require(p.m > 0, "{}: m, got 0, expected rows to plan for", name_of(p.op));
  std::vector<UnfusedSumWay> plans;
  const auto add = [&](UnfusedSumWay plan) {
    plan.predicted_us =
        plan.gemm.predicted_us + reduce_us(p, plan, plans_of(machine.architecture).hardware);
    plans.push_back(plan);
  };
  std::vector<int> pushes;
  for (const int shots : {1, 2})
    if (may_push(p, shots)) pushes.push_back(shots);
  for (const GemmPlan& gemm : gemm_candidates({p.m, p.n.front(), p.k, p.dtype}, machine)) {
    for (const Transport transport : {Transport::pull, Transport::store}) {
      if (row_of(transport).by_workers() && row_of(p.op).scatters()) continue;
      UnfusedSumWay plan{gemm, transport};
      plan.chunk_rows =
          ceil_div(summed_rows(p, form_of(p, plan)), kRounds * machine.multiprocessors);
      add(plan);
    }
    for (const int shots : pushes) add({gemm, Transport::push, 1, 0, shots});
  }
  std::ranges::stable_sort(plans, {}, &UnfusedSumWay::predicted_us);
  return plans;
}

schedule::ReduceRows reduce_rows_schedule(const Problem& p, const UnfusedSumWay& plan, int rank) {
  const auto borders = borders_of(p);
  return schedule::make_reduce_rows(split_of(p, borders), rank, form_of(p, plan), row_bytes(p) / 16,
                                    plan.chunk_rows, reduce_ctas(plan));
}

schedule::PushRows push_rows_schedule(const Problem& p, int shots, int rank, int ctas) {
  const auto borders = borders_of(p);
  const SumForm form = form_of(p, shots == 2);
  const Index units = summed_rows(p, form) * row_bytes(p) / 16;
  const Index even = ceil_div(ceil_div(units, ctas), kUnitGrain) * kUnitGrain;
  return schedule::make_push_rows(split_of(p, borders), rank, form, row_bytes(p) / 16,
                                  std::max(even, kLeastChunkUnits), ctas);
}

std::int64_t pushed_pitch(const Problem& p, int shots) {
  return summed_rows(p, form_of(p, shots == 2)) * row_bytes(p);
}

std::int64_t pulled_bytes(const Problem& p) { return p.m * row_bytes(p); }

std::int64_t gemm_reduce_staging_bytes(const Problem& p) {
  require_sum(p);
  return std::max({pulled_bytes(p), most_pushed_bytes(p, 1), most_pushed_bytes(p, 2)});
}

}  // namespace tilelace::plan
