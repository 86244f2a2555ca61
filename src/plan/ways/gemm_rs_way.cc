// SPDX-License-Identifier: Apache-2.0
#include "plan/ways/gemm_rs_way.h"

#include <algorithm>

#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/base/schedules.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/gemm/gemm_cost.h"
#include "schedule/make_reduce_order.h"

namespace tilelace::plan {
namespace {

using schedule::ceil_div;
using schedule::Index;

/// A step of the ring must hold 2 KiB of each term of a tile.
bool can_reduce(const GemmTile& t, int ranks) {
  return plan::can_reduce(t) && holds_terms(t, ranks);
}

/// Whether its clusters may lie across two shards. Worth it where one within a shard would be half
/// empty; own tiles must be nobody's but the last.
bool may_pair(const GemmPlan& gemm, const Problem& p, Index shard_rows) {
  const GemmTile& t = gemm.tile;
  if (!can_pair(t) || p.ranks % 2 != 0 || !holds_terms(t, p.ranks)) return false;
  const Index rows = ceil_div(shard_rows, t.rows());
  return rows % 2 != 0 && rows * ceil_div(p.n.front(), t.worker_cols()) <= gemm.workers;
}

/// Remote shards' partials travel under products, the own shard's come last. Where all tiles end
/// together they travel behind, and own tiles wait for their flag; predictions of clusters across
/// two shards are nearer without it. Groups that share a tile multiply nothing while they send it.
double predict(const Problem& p, const schedule::RowSplit& split, const GemmRsWay& plan,
               const GemmMachine& machine) {
  const Hardware& h = hardware_of(machine);
  const GemmTile& t = plan.gemm.tile;
  const GemmProblem product{p.m, p.n.front(), p.k, p.dtype};
  const Index tiles =
      tile_rows_of(split, t, plan.pairs) * ceil_div(p.n.front(), t.worker_columns());
  // The own shard behind the remote ones, where they do not share a wave.
  const bool together = tiles <= plan.gemm.workers;
  const double walks = together ? 1 : plan.apart + 1;
  const double us = product_us(product, plan.gemm, {tiles, walks}, machine);
  const double wire = sent_us(h, static_cast<double>((p.m - split.max_rows()) * row_bytes(p)));
  const double behind = together || !t.pingpong ? wire : 0;
  const double waited = together && !plan.pairs ? h.flag_us : 0;
  return std::max(us, wire + us / p.ranks) + behind + waited + h.call_us;
}

/// Of workers' tiles, that a rank has places for: as many from every rank as its shard may have.
Index partials_of(const Problem& p, const schedule::RowSplit& split, const GemmTile& t) {
  return p.ranks * ceil_div(split.max_rows(), t.worker_tokens()) *
         ceil_div(p.n.front(), t.worker_columns());
}

void require_scatter(const Problem& p) {
  require(p.op == Op::gemm_rs, "gemm_rs: op: got {}, expected gemm_rs", name_of(p.op));
  check_problem(p);
  require(p.ranks <= schedule::kMaxGpuRanks, "gemm_rs: ranks: got {}, expected at most {}", p.ranks,
          schedule::kMaxGpuRanks);
}

}  // namespace

Index tile_rows_of(const schedule::RowSplit& split, const GemmTile& t, bool pairs) {
  if (pairs) return split.ranks / 2 * ceil_div(split.max_rows(), t.rows());
  return tile_rows_by_shard(split, t.worker_tokens());
}

int given_parts(const GemmTile& t) { return t.cluster() * (t.pingpong ? 1 : t.groups); }

std::int64_t given_bytes(const GemmTile& t) {
  return given_parts(t) * ceil_div(Index{t.blocks} * t.width / 2, 8) * kPartialPieceBytes;
}

bool holds_terms(const GemmTile& t, int ranks) {
  const int stage = (t.rows() + t.width) * 128;
  return stage >= kPartialPieceBytes * terms_at_once(t.width, t.pingpong) *
                      (t.pingpong ? 1 : t.groups) * (ranks - 1);
}

bool has_flags(const GemmTile& t, std::int64_t partials) {
  return partials * given_parts(t) <= kMaxPartialFlags;
}

int tiles_of(const GemmRsWay& plan, const Problem& p) {
  const auto borders = borders_of(p);
  const schedule::GemmWork work = work_of(plan.gemm, {p.m, p.n.front(), p.k, p.dtype});
  const Index rows = tile_rows_of(split_of(p, borders), plan.gemm.tile, plan.pairs);
  return static_cast<int>(rows) * over_tokens(work.order, plan.gemm.tile).cols;
}

std::vector<GemmRsWay> gemm_rs_candidates(const Problem& p, const GemmMachine& machine) {
  require_scatter(p);
  require(p.m > 0, "gemm_rs: m: got 0, expected at least 1 row to plan for");
  const auto borders = borders_of(p);
  const auto split = split_of(p, borders);
  const Index room = gemm_rs_staging_bytes(p, machine.architecture);
  std::vector<GemmRsWay> plans;
  for (const GemmPlan& gemm : candidates_by_shard({p.m, p.n.front(), p.k, p.dtype}, machine)) {
    if (gemm.split_tiles != 0 || !has_flags(gemm.tile, partials_of(p, split, gemm.tile))) continue;
    if (is_across(gemm.tile) && partials_of(p, split, gemm.tile) * given_bytes(gemm.tile) > room)
      continue;
    const auto add = [&](int apart, bool pairs) {
      plans.push_back({gemm, apart, 0, pairs});
      plans.back().predicted_us = predict(p, split, plans.back(), machine);
    };
    if (can_reduce(gemm.tile, p.ranks)) {
      add(1, false);
      if (p.ranks > 2) add(p.ranks - 1, false);
    }
    if (may_pair(gemm, p, split.max_rows())) add(1, true);
  }
  std::ranges::stable_sort(plans, {}, &GemmRsWay::predicted_us);
  return plans;
}

std::int64_t gemm_rs_staging_bytes(const Problem& p, int architecture) {
  require_scatter(p);
  const auto borders = borders_of(p);
  const auto split = split_of(p, borders);
  Index most = 0;
  for (const GemmTile& t : plans_of(architecture).tiles) {
    // Tiles with tokens across that would take more have more empty places, too: not taken.
    if (is_across(t) || (!can_reduce(t, p.ranks) && !can_pair(t))) continue;
    most = std::max(most, partials_of(p, split, t) * given_bytes(t));
  }
  return most;
}

}  // namespace tilelace::plan
