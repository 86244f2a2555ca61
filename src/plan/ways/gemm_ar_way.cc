// SPDX-License-Identifier: Apache-2.0
#include "plan/ways/gemm_ar_way.h"

#include <algorithm>

#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/gemm/gemm_cost.h"
#include "plan/ways/gemm_rs_way.h"

namespace tilelace::plan {
namespace {

using schedule::ceil_div;
using schedule::Index;

/// How far own tiles come behind, in waves: a remote tile's partials leave under the tile after it.
constexpr double kLags[] = {1.5, 2.5};

bool can_share(const GemmTile& t, int ranks) { return plan::can_share(t) && holds_terms(t, ranks); }

/// Rows of tiles in one block of all shards.
Index step_rows(const Problem& p, Index block_rows, Index worker_rows) {
  return p.ranks * ceil_div(std::min(block_rows, ceil_div(p.m, p.ranks)), worker_rows);
}

/// As many rows of a shard as one walk over the weight serves, in at most kMaxShareBlocks blocks.
Index block_rows_of(const Problem& p, const GemmTile& tile) {
  const Index rows = tile.worker_rows();
  const Index shard = ceil_div(p.m, p.ranks);
  const Index wanted = std::max(kWalkRows / p.ranks, ceil_div(shard, schedule::kMaxShareBlocks));
  return ceil_div(wanted, rows) * rows;
}

/// Whether partials of all blocks have flags.
bool has_flags(const Problem& p, const GemmTile& t, Index block_rows) {
  const Index shard = ceil_div(p.m, p.ranks);
  const Index rows = ceil_div(std::min(shard, block_rows), t.worker_rows());
  return plan::has_flags(
      t, p.ranks * ceil_div(shard, block_rows) * rows * ceil_div(p.n.front(), t.worker_cols()));
}

GemmProblem product_of(const Problem& p) { return {p.m, p.n.front(), p.k, p.dtype}; }

/// Bytes that a rank sends in one of the two phases, and gets in it.
double phase_bytes(const Problem& p) {
  return static_cast<double>(p.m * row_bytes(p)) * (p.ranks - 1) / p.ranks;
}

/// Us of what a rank sends in one of the two phases.
double phase_us(const Hardware& h, const Problem& p) { return sent_us(h, phase_bytes(p)); }

/// Us of both phases beside products. Where products are shorter, more than two ranks send no
/// faster than SMs read beside a GEMM, and partials of several peers pile up; beyond L2 they are
/// slow. What peers write lies in L2 once, unlike what SMs of both of its halves read, and L2 has
/// MiB.
double phases_us(const Hardware& h, const Problem& p, double product) {
  const double sent = 2 * phase_us(h, p);
  if (p.ranks == 2 || sent < product) return sent;
  const bool held = phase_bytes(p) <= 2 * 1024 * 1024 * h.l2_mb;
  return us_at(2 * phase_bytes(p), held ? h.fetch_gbps : h.spilled_gbps);
}

/// Columns of tiles of one owner, where owners have columns.
Index owner_cols(const Problem& p, const GemmTile& tile) {
  return ceil_div(ceil_div(p.n.front(), tile.worker_cols()), p.ranks);
}

Index tiles_by_columns(const Problem& p, const GemmTile& tile) {
  return ceil_div(p.m, tile.worker_rows()) * p.ranks * owner_cols(p, tile);
}
Index tiles_by_rows(const Problem& p, const GemmTile& tile) {
  return step_rows(p, p.m, tile.worker_rows()) * ceil_div(p.n.front(), tile.worker_cols());
}

/// Columns of `step` tiles, of all owners, that own tiles come behind: so many waves, and, as at
/// first only remote tiles are multiplied, at least a wave of those. With less an own tile waits
/// for terms that are made beside it (two ranks, n 5120, k 12800, m 1024: 250 us where others take
/// 215).
Index lag_of(const Problem& p, const GemmPlan& gemm, Index step, double waves) {
  const auto tiles = static_cast<Index>(waves * gemm.workers);
  const Index remote = std::max<Index>(1, step / p.ranks * (p.ranks - 1));
  return std::max(ceil_div(tiles, step), ceil_div(gemm.workers, remote));
}

/// Whether all products end together: all partials leave then, and after them all results.
bool one_wave(const Problem& p, const GemmPlan& gemm) {
  return tiles_by_columns(p, gemm.tile) <= gemm.workers;
}

/// Groups that share a tile multiply nothing while they send.
bool sends_well(const GemmPlan& gemm, Index tiles) {
  return gemm.tile.pingpong || tiles <= gemm.workers;
}

/// Both phases travel under products, but for what is left of the second when the last remote
/// product ends: the last own tiles', `lag` of all blocks' columns. Where all products end together
/// both come behind; in two rounds all but the second half's partials, and all results, do.
double predict(const Problem& p, const GemmArWay& plan, Index tiles, const GemmMachine& machine) {
  const Hardware& h = hardware_of(machine);
  const double product = product_us(product_of(p), plan.gemm, {tiles}, machine);
  const double phase = phase_us(h, p);
  if (plan.gemm.rounds > 1) {
    const double behind = p.ranks > 2 ? (p.ranks - 2) / (2.0 * (p.ranks - 1)) : 0;
    return product + (1 + behind) * phase + h.call_us + 2 * h.flag_us;
  }
  if (tiles <= plan.gemm.workers) return product + 2 * (phase + h.flag_us) + h.call_us;
  const GemmTile& t = plan.gemm.tile;
  const Index blocks = ceil_div(ceil_div(p.m, p.ranks), plan.block_rows);
  const auto cols = static_cast<double>(
      plan.by_columns ? owner_cols(p, t) : blocks * ceil_div(p.n.front(), t.worker_cols()));
  const double left = phase * std::min(1.0, plan.lag / cols);
  return both_limits_us(product, phases_us(h, p, product)) + left + h.call_us + h.flag_us;
}

void add_columns(const Problem& p, const GemmPlan& gemm, const GemmMachine& machine,
                 std::vector<GemmArWay>& plans) {
  const Index tiles = tiles_by_columns(p, gemm.tile);
  const auto add = [&](const GemmPlan& made, Index lag) {
    plans.push_back({made, p.m, static_cast<int>(lag), 0, true});
    plans.back().predicted_us = predict(p, plans.back(), tiles, machine);
  };
  if (const auto halves = in_two_rounds(gemm, tiles, p.k)) add(*halves, owner_cols(p, gemm.tile));
  const Index step = p.ranks * ceil_div(p.m, gemm.tile.worker_rows());
  Index before = 0;
  for (const double waves : kLags) {
    const Index lag = std::min(lag_of(p, gemm, step, waves), owner_cols(p, gemm.tile));
    if (lag == before) continue;
    before = lag;
    add(gemm, lag);
  }
}

}  // namespace

void require_gemm_ar(const Problem& p) {
  require(p.op == Op::gemm_ar, "gemm_ar: op: got {}, expected gemm_ar", name_of(p.op));
  check_problem(p);
  require(p.ranks <= schedule::kMaxGpuRanks, "gemm_ar: ranks: got {}, expected at most {}", p.ranks,
          schedule::kMaxGpuRanks);
}

int tiles_of(const GemmArWay& plan, const Problem& p) { return gemm_ar_order(p, plan, 0).tiles(); }

double gemm_ar_hold_us(const Problem& p, const GemmArWay& plan) {
  if (!plan.by_columns || !one_wave(p, plan.gemm) || plan.gemm.rounds > 1) return 0;
  return phase_us(hardware_of(plan.gemm), p) / 2;
}

schedule::ShareOrder gemm_ar_order(const Problem& p, const GemmArWay& plan, int rank) {
  const GemmTile& tile = plan.gemm.tile;
  const schedule::Route route{RouteKind::mesh, p.ranks, p.ranks};
  const auto cols = static_cast<int>(ceil_div(p.n.front(), tile.worker_cols()));
  if (plan.by_columns)
    return schedule::make_share_order_of_columns(p.m, route, rank, p.ranks, cols,
                                                 tile.worker_rows(), plan.lag);
  return schedule::make_share_order({p.m, p.ranks, nullptr}, route, rank, cols, tile.worker_rows(),
                                    plan.block_rows, plan.lag);
}

std::vector<GemmArWay> gemm_ar_candidates(const Problem& p, const GemmMachine& machine) {
  require_gemm_ar(p);
  require(p.m > 0, "gemm_ar: m: got 0, expected at least 1 row to plan for");
  std::vector<GemmArWay> plans;
  for (const GemmPlan& gemm : candidates_by_shard({p.m, p.n.front(), p.k, p.dtype}, machine)) {
    if (!can_share(gemm.tile, p.ranks) || gemm.split_tiles != 0) continue;
    if (p.m <= kWalkRows && sends_well(gemm, tiles_by_columns(p, gemm.tile)) &&
        plan::has_flags(gemm.tile, tiles_by_columns(p, gemm.tile)))
      add_columns(p, gemm, machine, plans);
    if (!sends_well(gemm, tiles_by_rows(p, gemm.tile))) continue;
    const Index block_rows = block_rows_of(p, gemm.tile);
    if (!has_flags(p, gemm.tile, block_rows)) continue;
    const Index step = step_rows(p, block_rows, gemm.tile.worker_rows());
    for (const double waves : kLags) {
      const auto lag = static_cast<int>(lag_of(p, gemm, step, waves));
      plans.push_back({gemm, block_rows, lag});
      plans.back().predicted_us = predict(p, plans.back(), tiles_by_rows(p, gemm.tile), machine);
    }
  }
  std::ranges::stable_sort(plans, {}, &GemmArWay::predicted_us);
  return plans;
}

std::int64_t gemm_ar_staging_bytes(const Problem& p, int architecture) {
  require_gemm_ar(p);
  Index most = 0;
  for (const GemmTile& t : plans_of(architecture).tiles) {
    if (!can_share(t, p.ranks)) continue;
    const Index block_rows = block_rows_of(p, t);
    const Index shard = ceil_div(p.m, p.ranks);
    const Index tiles = ceil_div(std::min(shard, block_rows), t.worker_rows()) *
                        ceil_div(p.n.front(), t.worker_cols());
    const Index blocks = std::max<Index>(1, ceil_div(shard, block_rows));
    const Index of_columns =
        ceil_div(std::min<Index>(p.m, kWalkRows), t.worker_rows()) * owner_cols(p, t);
    most = std::max(most, p.ranks * std::max(blocks * tiles, of_columns) * given_bytes(t));
  }
  return most + 128 + p.m * p.n.front() * static_cast<Index>(size_of(p.dtype));
}

}  // namespace tilelace::plan
