// SPDX-License-Identifier: Apache-2.0
#include "plan/ways/kept_partials_way.h"

#include <algorithm>

#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/ways/gemm_ar_way.h"
#include "schedule/tile_sums.h"

namespace tilelace::plan {
namespace {

using schedule::ceil_div;
using schedule::Index;

/// What a link carries one way. By the switch: a rank's partials and its share of the sums. In one
/// shot all terms but the own, in two a share of them and of the sums.
double moved_bytes(const Problem& p, const KeptPartialsWay& plan) {
  const auto bytes = static_cast<double>(p.m * row_bytes(p));
  if (plan.by_switch) return bytes * (1 + 1.0 / p.ranks);
  if (plan.shots == 1) return bytes * (p.ranks - 1);
  return bytes * 2 * (p.ranks - 1) / p.ranks;
}

/// Tiles are summed beside products, but those of the last wave behind them; where sums take
/// longer, all come behind the first wave.
double predict(const Problem& p, const KeptPartialsWay& plan, const Hardware& h) {
  const double moved = us_at(moved_bytes(p, plan), h.fetch_gbps);
  const double last = std::min(1.0, plan.gemm.workers / static_cast<double>(tiles_of(plan, p)));
  const double gemm = plan.gemm.predicted_us;
  return std::max(gemm + last * moved, moved + last * gemm) + h.call_us + h.flag_us;
}

/// All plans like this one, for every tile that `made` is true of.
template <class Made>
void add(const Problem& p, const GemmMachine& machine, const Made& made, KeptPartialsWay like,
         std::vector<KeptPartialsWay>& plans) {
  require_gemm_ar(p);
  require(p.m > 0, "gemm_ar: m: got 0, expected at least 1 row to plan for");
  for (const GemmPlan& gemm : gemm_candidates({p.m, p.n.front(), p.k, p.dtype}, machine)) {
    if (!made(gemm.tile) || gemm.split_tiles != 0) continue;
    like.gemm = gemm;
    like.predicted_us = predict(p, like, hardware_of(machine));
    plans.push_back(like);
  }
}

std::vector<KeptPartialsWay> sorted(std::vector<KeptPartialsWay> plans) {
  std::ranges::stable_sort(plans, {}, &KeptPartialsWay::predicted_us);
  return plans;
}

}  // namespace

int tiles_of(const KeptPartialsWay& plan, const Problem& p) {
  return work_of(plan.gemm, {p.m, p.n.front(), p.k, p.dtype}).order.tiles();
}

std::vector<KeptPartialsWay> gemm_sums_candidates(const Problem& p, const GemmMachine& machine) {
  std::vector<KeptPartialsWay> plans;
  if (p.ranks <= 2) add(p, machine, can_pull, {{}, 1}, plans);
  add(p, machine, can_pull, {{}, 2}, plans);
  return sorted(std::move(plans));
}

std::vector<KeptPartialsWay> gemm_multimem_candidates(const Problem& p,
                                                      const GemmMachine& machine) {
  std::vector<KeptPartialsWay> plans;
  add(p, machine, can_multimem, {{}, 2, true}, plans);
  return sorted(std::move(plans));
}

std::int64_t gemm_sums_staging_bytes(const Problem& p) {
  require_gemm_ar(p);
  return p.m * p.n.front() * static_cast<Index>(size_of(p.dtype));
}

std::int64_t gemm_sums_counts(const Problem& p, int architecture) {
  require_gemm_ar(p);
  Index most = 0;
  for (const GemmTile& t : plans_of(architecture).tiles) {
    if (!can_pull(t) && !can_multimem(t)) continue;
    const Index tiles = ceil_div(p.m, t.worker_rows()) * ceil_div(p.n.front(), t.worker_cols());
    most = std::max(most, tiles * t.cluster());
  }
  return schedule::num_counts(static_cast<int>(most));
}

}  // namespace tilelace::plan
