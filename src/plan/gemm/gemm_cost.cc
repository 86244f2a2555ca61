// SPDX-License-Identifier: Apache-2.0
#include "plan/gemm/gemm_cost.h"

#include <algorithm>
#include <cmath>

#include "plan/gemm/architecture_plans.h"
#include "schedule/rows.h"

namespace tilelace::plan {
namespace {

/// Sharpness of the knee between limits that are near each other: they add up a little.
constexpr double kKnee = 3;
/// A step of more than two CTAs ends with the slowest of them.
constexpr double kWideCluster = 1.2;

/// Of what workers load that share k-steps unlike each other, so much is not in L2 any more if L2
/// does not hold all operands of their tiles.
constexpr double kMissed = 0.7;

/// What a plan's product asks for, counted.
struct Count {
  double step_us;      ///< a CTA's
  double tile_bytes;   ///< of memory, a tile's share
  double tile_loads;   ///< of L2, a tile's
  double l2_gbps;      ///< at which all tiles together load them
  double missed;       ///< of a shared tile's loads, bytes that are not in L2 any more
  double weight_us;    ///< a CTA's part of the weight, as fast as one alone gets it
  double energy_us;    ///< at the power limit
  double tile_end_us;  ///< what comes behind a tile's steps
  double tiles;
  std::int64_t k_steps;
};

Count count(const GemmProblem& p, const GemmPlan& plan, const TileCut& cut, const Hardware& h,
            int multiprocessors) {
  const GemmTile& t = plan.tile;
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n),
             k = static_cast<double>(p.k);
  const auto element = static_cast<double>(size_of(p.dtype));
  const double row_bytes = kStep * element;
  const double step_flops = 2.0 * t.rows() * t.width * kStep;
  const auto tiles = static_cast<double>(std::max<std::int64_t>(cut.tiles, 1));
  Count c;
  c.tiles = tiles;
  c.k_steps = schedule::ceil_div(p.k, kStep);
  c.tile_end_us = t.pingpong ? 0 : h.tile_us * t.rows() * t.width / (128.0 * 256);
  // What a multiprocessor takes in, with what others of its cluster loaded for it.
  const double taken = row_bytes * (t.rows() + t.width);
  c.step_us = std::max({h.step_us, us_at(taken, t.cluster() == 1 ? h.alone_gbps : h.l2_gbps),
                        us_at(step_flops, 1e3 * h.peak_tflops * h.efficiency / h.multiprocessors)});
  if (t.cluster() > 2) c.step_us *= kWideCluster;
  if (plan.workers * t.cluster() > multiprocessors) c.step_us *= 2;  // two CTAs on one
  const double readings =
      std::max(static_cast<double>(schedule::ceil_div(p.m, kWalkRows)), cut.walks);
  const double memory = element * (n * k * readings + m * k + m * static_cast<double>(p.out_n()));
  c.tile_bytes = memory / tiles;
  c.l2_gbps = t.cluster() == 1 ? h.alone_gbps * h.multiprocessors : h.l2_total_gbps;
  c.tile_loads = row_bytes *
                 (static_cast<double>(t.rows()) / t.cluster_cols +
                  static_cast<double>(t.width) / t.cluster_rows) *
                 t.cluster() * static_cast<double>(c.k_steps);
  const double shared = element * (n + m) * k * std::min(1.0, plan.split_tiles / tiles);
  c.missed = shared > 1e6 * h.l2_mb ? kMissed * c.tile_loads : 0;
  const double weight_rows = t.swapped ? static_cast<double>(t.rows()) / t.cluster_cols
                                       : static_cast<double>(t.width) / t.cluster_rows;
  c.weight_us =
      us_at(row_bytes * weight_rows * static_cast<double>(c.k_steps), h.worker_memory_gbps);
  c.energy_us = us_at(2 * m * n * k, 1e3 * h.power_tflops) +
                us_at(tiles * c.tile_loads, h.power_l2_gbps) + us_at(memory, h.power_memory_gbps);
  return c;
}

/// Whether all tiles are cut into as many parts, so that workers walk side by side.
bool are_alike(const GemmPlan& plan, double tiles) {
  return plan.split_tiles > 0 && tiles == plan.split_tiles && plan.workers % plan.split_tiles == 0;
}

/// What shared k-steps add: heads wait for the others' partials, which are written and read. Of
/// tiles by shard others follow: where warpgroups alternate, one multiplies while partials move.
double sharing_us(const GemmPlan& plan, const TileCut& cut, const Count& c, const Hardware& h) {
  if (plan.split_tiles == 0) return 0;
  const double share = std::max(
      1.0, static_cast<double>(plan.split_tiles) * static_cast<double>(c.k_steps) / plan.workers);
  // Cut alike each tile has a worker more than givers; else most tiles have one more.
  const double givers = std::max(
      1.0, std::ceil(static_cast<double>(c.k_steps) / share) - (are_alike(plan, c.tiles) ? 1 : 0));
  const double partial = 8.0 * plan.tile.rows() * plan.tile.width;  // fp32, out and in
  const bool under = plan.tile.pingpong && cut.walks > 1;
  const double moved = under ? 0 : us_at((1 + givers) * partial, h.l2_gbps);
  return givers * h.worker_flag_us + moved;
}

/// The device's own; drivers and data sheets round it differently.
double memory_rate(const Hardware& h, const GemmMachine& machine) {
  const bool other = std::abs(machine.memory_gbps - h.memory_gbps) > kSameMemory * h.memory_gbps;
  return machine.memory_gbps > 0 && other ? machine.memory_gbps : h.memory_gbps;
}

}  // namespace

double both_limits_us(double a, double b) {
  return std::pow(std::pow(a, kKnee) + std::pow(b, kKnee), 1 / kKnee);
}

double product_us(const GemmProblem& p, const GemmPlan& plan, const TileCut& cut,
                  const GemmMachine& machine) {
  const Hardware& h = hardware_of(machine);
  const Count c = count(p, plan, cut, h, machine.multiprocessors);
  const double memory_gbps = memory_rate(h, machine);
  const double tiles = c.tiles;
  const auto k_steps = static_cast<double>(c.k_steps);
  const double tile_memory =
      std::max(us_at(c.tile_bytes, memory_gbps), us_at(c.tile_loads, c.l2_gbps));
  const double whole = std::max(0.0, tiles - plan.split_tiles);
  const double workers =
      plan.split_tiles > 0 ? plan.workers : std::min<double>(plan.workers, tiles);
  // `at_once` tiles, each worker's part of them this much of a tile.
  const auto wave = [&](double at_once, double part, double steps, double memory) {
    if (at_once == 0) return 0.0;
    return both_limits_us(at_once * memory,
                          std::max(steps * c.step_us + c.tile_end_us, part * c.weight_us));
  };
  const double shared = plan.split_tiles / workers;
  const double full = std::floor(whole / workers), rest = whole - full * workers;
  const double missed = us_at(c.missed, memory_gbps);
  const double clock = wave(plan.split_tiles, shared, std::ceil(shared * k_steps),
                            are_alike(plan, tiles) ? tile_memory : std::max(tile_memory, missed)) +
                       full * wave(workers, 1, k_steps, tile_memory) +
                       wave(rest, 1, k_steps, tile_memory);
  return h.fixed_us + both_limits_us(clock, c.energy_us) + sharing_us(plan, cut, c, h);
}

}  // namespace tilelace::plan
