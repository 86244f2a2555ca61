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

// Measured on H200s over NVLink (docs/decisions/0006); the tail is the end of the last tiles.
constexpr double kSentBytesPerUs = 1.2e6;
constexpr double kRowsTailUs = 10;
constexpr double kColumnTailUs = 5;  ///< of owners of columns: among four, m 128 to 1024
/// In two rounds, where halves of tiles are added up, too (predict_two_rounds has what is sent).
/// Two H200s, m 256: llama70b 113 us, 117 in one round, staged 118 and 122.
constexpr double kRoundsTailUs = 7.5;
/// Where two CTAs that are a pair along n each load what a pair of rows would share (qwen32b, m
/// 256: 48.4 us where c80 takes 46.4; llama70b 84.1 and 83.8). For so few rows products' own
/// predictions have it.
constexpr double kPairAlongUs = 2;
// On two H200s, and on four: what the product loses to tiles that leave from multiprocessors.
constexpr double kSentCost = 1.015, kSentAmongMany = 1.035;
/// Between two, where a call is few waves: the product loses nothing, and half of what the last own
/// tiles send leaves under them (two H200s, m 512 and 1024: predictions were 7 to 12 % above, those
/// of one shot 3 to 9, so that one shot was taken where the fused kernel is 2 to 5 % faster).
constexpr Index kFewWavesRows = 1024;
/// How far own tiles come behind, in waves: a remote tile's partials leave under the tile after it.
constexpr double kLags[] = {1.5, 2.5};
/// Of the product, where that leaves ranks half a wave to drift apart. Two H200s, m 4096: llama70b
/// 4 to 6 %, qwen32b nothing.
constexpr double kLateCost = 1.025;
constexpr double kAmpleLag = 2;

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

double late_start_us(const Problem& p, const GemmPlan& gemm) {
  return gemm.early_weights || p.ranks == 2 ? 0 : kLateStartUs;
}

/// The product, in whole tiles of every shard.
double product_us(const Problem& p, const GemmPlan& gemm) {
  const Index rows = gemm.tile.worker_rows();
  const Index tiles = p.ranks * ceil_div(ceil_div(p.m, p.ranks), rows);
  const double us =
      gemm.predicted_us * static_cast<double>(tiles) / static_cast<double>(ceil_div(p.m, rows));
  return us + wide_tile_us(gemm.tile) + late_start_us(p, gemm);
}

bool few_waves_of_two(const Problem& p) { return p.ranks == 2 && p.m <= kFewWavesRows; }

double sent_cost(const Problem& p) {
  if (p.ranks > 2) return kSentAmongMany;
  return few_waves_of_two(p) ? 1 : kSentCost;
}

/// Of the last own tiles, behind the last products.
double left_us(const Problem& p, double bytes) {
  return bytes / kSendBytesPerUs / (few_waves_of_two(p) ? 2 : 1);
}

/// What a rank sends in one of the two phases.
double sent_bytes(const Problem& p) {
  return static_cast<double>(p.ranks - 1) / p.ranks * static_cast<double>(p.m * p.n.front() * 2);
}

double predict(const Problem& p, const GemmPlan& gemm, Index block_rows, Index lag) {
  const Index rows = gemm.tile.worker_rows();
  const Index cols = ceil_div(p.n.front(), gemm.tile.worker_cols());
  const bool ample = static_cast<double>(lag * step_rows(p, block_rows, rows)) >=
                     kAmpleLag * static_cast<double>(gemm.workers);
  const double us = product_us(p, gemm) * sent_cost(p) * (ample ? 1 : kLateCost);
  const double share = static_cast<double>(p.ranks - 1) / p.ranks;
  // What is left to send when the last remote product ends: the last own tiles.
  const double left = share * static_cast<double>(std::min(lag, cols)) *
                      static_cast<double>(gemm.tile.worker_cols() * 2) *
                      static_cast<double>(step_rows(p, block_rows, rows) * rows);
  return std::max(us, 2 * sent_bytes(p) / kSendBytesPerUs) + left_us(p, left) + kRowsTailUs;
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
/// for terms that are made beside it (two H200s, qwen32b, m 1024: 250 us where others take 215).
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

/// The product where owners have columns: a last column of its own may take a wave of its own.
double columns_product_us(const Problem& p, const GemmPlan& gemm) {
  const Index tiles =
      ceil_div(p.m, gemm.tile.worker_rows()) * ceil_div(p.n.front(), gemm.tile.worker_cols());
  const Index waves = ceil_div(tiles_by_columns(p, gemm.tile), gemm.workers);
  const double us = gemm.predicted_us * static_cast<double>(waves) /
                    static_cast<double>(ceil_div(tiles, gemm.workers));
  return us + wide_tile_us(gemm.tile) + late_start_us(p, gemm);
}

/// One wave: nothing is sent under it, nor does it lose anything to what is.
double predict_one_wave(const Problem& p, const GemmPlan& gemm) {
  const bool along =
      gemm.tile.cluster_cols > 1 && p.m > std::max<Index>(kFewRows, gemm.tile.worker_rows());
  return columns_product_us(p, gemm) + kColumnTailUs + (gemm.tile.pingpong ? kSlowEndUs : 0) +
         (along ? kPairAlongUs : 0) + 2 * sent_bytes(p) / kAloneBytesPerUs;
}

/// Partials of the first half travel under products: between two ranks all of them, as own tiles
/// come last. Those of the second half and all results come behind.
double predict_two_rounds(const Problem& p, const GemmPlan& gemm) {
  const double behind = p.ranks > 2 ? static_cast<double>(p.ranks - 2) / (2 * (p.ranks - 1)) : 0;
  return columns_product_us(p, gemm) + kRoundsTailUs +
         (1 + behind) * sent_bytes(p) / kAloneBytesPerUs;
}

double predict_columns(const Problem& p, const GemmPlan& gemm, Index lag) {
  if (one_wave(p, gemm)) return predict_one_wave(p, gemm);
  const Index rows = ceil_div(p.m, gemm.tile.worker_rows());
  const bool ample =
      static_cast<double>(lag * p.ranks * rows) >= kAmpleLag * static_cast<double>(gemm.workers);
  const double product = columns_product_us(p, gemm) * sent_cost(p) * (ample ? 1 : kLateCost);
  const double left =
      sent_bytes(p) * static_cast<double>(lag) / static_cast<double>(owner_cols(p, gemm.tile));
  return std::max(product, 2 * sent_bytes(p) / kSendBytesPerUs) + left_us(p, left) + kColumnTailUs;
}

void add_columns(const Problem& p, const GemmPlan& gemm, double staged_us,
                 std::vector<GemmArWay>& plans) {
  const auto add = [&](const GemmPlan& made, Index lag, double us) {
    plans.push_back({made, p.m, static_cast<int>(lag), us + staged_us, true});
  };
  if (const auto halves = in_two_rounds(gemm, tiles_by_columns(p, gemm.tile), p.k))
    add(*halves, owner_cols(p, gemm.tile), predict_two_rounds(p, *halves));
  const Index step = p.ranks * ceil_div(p.m, gemm.tile.worker_rows());
  Index before = 0;
  for (const double waves : kLags) {
    const Index lag = std::min(lag_of(p, gemm, step, waves), owner_cols(p, gemm.tile));
    if (lag == before) continue;
    before = lag;
    add(gemm, lag, predict_columns(p, gemm, lag));
  }
}

}  // namespace

void require_gemm_ar(const Problem& p) {
  require(p.op == Op::gemm_ar, "gemm_ar: op, got {}, expected gemm_ar", name_of(p.op));
  check_problem(p);
  require(p.ranks <= schedule::kMaxGpuRanks, "gemm_ar: ranks, got {}, expected at most {}", p.ranks,
          schedule::kMaxGpuRanks);
}

int tiles_of(const GemmArWay& plan, const Problem& p) { return gemm_ar_order(p, plan, 0).tiles(); }

double gemm_ar_hold_us(const Problem& p, const GemmArWay& plan) {
  if (!plan.by_columns || !one_wave(p, plan.gemm) || plan.gemm.rounds > 1) return 0;
  return sent_bytes(p) / kSendBytesPerUs / 2;
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
  require(p.m > 0, "gemm_ar: m, got 0, expected rows to plan for");
  const Index of_peers = p.m - p.m / p.ranks;
  const double staged_us = static_cast<double>(of_peers * p.n.front()) *
                           static_cast<double>(size_of(p.dtype)) / kSentBytesPerUs;
  std::vector<GemmArWay> plans;
  for (const GemmPlan& gemm : gemm_candidates({p.m, p.n.front(), p.k, p.dtype}, machine)) {
    if (!can_share(gemm.tile, p.ranks) || gemm.split_tiles != 0) continue;
    if (p.m <= kWalkRows && sends_well(gemm, tiles_by_columns(p, gemm.tile)) &&
        plan::has_flags(gemm.tile, tiles_by_columns(p, gemm.tile)))
      add_columns(p, gemm, staged_us, plans);
    if (!sends_well(gemm, tiles_by_rows(p, gemm.tile))) continue;
    const Index block_rows = block_rows_of(p, gemm.tile);
    if (!has_flags(p, gemm.tile, block_rows)) continue;
    const Index step = step_rows(p, block_rows, gemm.tile.worker_rows());
    for (const double waves : kLags) {
      const auto lag = static_cast<int>(lag_of(p, gemm, step, waves));
      plans.push_back({gemm, block_rows, lag, predict(p, gemm, block_rows, lag) + staged_us});
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
