// SPDX-License-Identifier: Apache-2.0
#include "plan/gemm/gemm_cost.h"

#include <algorithm>
#include <cmath>

namespace tilelace::plan {
namespace {

/// Fitted to 3,554 measured plans of 196 problems on H200s (docs/decisions/0005). Terms that a
/// range of m does not show are 0 or far away.
struct Fit {
  double fixed_us;             ///< launch, first loads, last stores
  double clock_ghz;            ///< at which products run
  double step_bytes_per_ns;    ///< L2 into one multiprocessor
  double ns_per_mflop;         ///< energy of products, at the power limit
  double ns_per_l2_kb;         ///< energy of L2 reads
  double ns_per_partial_byte;  ///< writing and reading partials
  double us_per_giver;         ///< flags, and partials one after the other
  double ns_per_element;       ///< end of a tile
  double l2_bytes_per_ns;      ///< L2 into each of all multiprocessors at once
  double ns_per_memory_kb;     ///< energy of memory
  double memory_bytes_per_ns;
  double neighbours;  ///< L2 reads left where neighbours share
  double padding;     ///< a step's growth where all its token rows are filled with zeros
};
constexpr Fit kFewest{4.797,  0.992, 63.8,   0.877, 0.0272, 0.0135, 0.437,
                      0.0754, 117.1, 0.0284, 4484,  0.9,    0.734};
constexpr Fit kFew{4.694,  0.688, 84.7,   0.489, 0.0142, 0.0068, 0.816,
                   0.0152, 215.4, 0.0200, 4377,  0.9,    0.241};
constexpr Fit kSome{5.989,  1.463, 94.5,   1.061, 0.0361, 0.0196, 0.093,
                    0.0018, 187.3, 0.0233, 7998,  0.9,    0.1};
constexpr Fit kMany{0.843,  1.527, 70.5,   0.994, 0.0347, 0.0431, 1.5,
                    0.1135, 150.5, 0.1332, 4250,  0.973,  0};

constexpr double kFlopsPerCycle = 4096;    // of one multiprocessor
constexpr double kProductOverhead = 1.04;  // measured without any load
constexpr double kHiddenEnd = 0.3;         // of a tile's end, in pingpong
constexpr double kEarlyNs = 1500;          // gained by beginning early
constexpr double kLeastUs = 2;             // many rows of almost no work: the fit goes below 0

/// A maximum with a soft knee: limits that are near each other add up a little.
template <class... T>
double limit(T... x) {
  return std::pow((std::pow(x, 6) + ...), 1.0 / 6);
}

/// The same of plans for few rows, against whole tiles of pairs of CTAs along m. One H200,
/// 24 problems of m 256 and 512 (where first choices were good all the same), 900 plans. Pairs
/// along n, each with columns of its own, ask for the same weights as their neighbours below:
/// from 3.5 (128 columns) to 12 % (64) more. Shared k-steps take 3 to 8 % more, where each tile is
/// cut alike as long as predicted.
double over_few(const GemmPlan& plan, std::int64_t m, int tiles) {
  const GemmTile& t = plan.tile;
  if (m > kFewRows || t.rows() < 128) return 1;  // nothing was looked at
  const bool along = t.cluster_rows == 1 && t.cluster_cols == 2 && !t.swapped && m > t.rows();
  const bool alike = plan.split_tiles == tiles && plan.workers % tiles == 0;
  if (plan.split_tiles > 0 && !alike) return along ? 1.15 : 1.05;
  return along && t.width <= 128 ? 1.035 + 0.00146 * (128 - t.width) : 1;
}

/// The same of shared k-steps, where workers are at different steps of their tiles and so find less
/// of what they load in L2, the longer the less. One H200, 46 problems of 200 to 1,000 rows, 650
/// plans: groups that take turns lose most, tiles that are all shared more than the last ones.
double over_uneven(const GemmPlan& plan, int k_steps, int tiles) {
  const bool turns = plan.tile.pingpong;
  if (plan.split_tiles == 0 || (plan.split_tiles == tiles && plan.workers % tiles == 0)) return 1;
  if (tiles <= plan.workers) {
    const bool longer = plan.split_tiles * k_steps > 100 * plan.workers;
    return turns ? 1.13 : longer ? 1.1 : 1;
  }
  if (plan.split_tiles == tiles) return turns ? 1.3 : 1.13;
  if (plan.split_tiles > plan.workers) return turns ? 1.15 : 1.06;
  return turns ? 1.08 : 1.03;
}

/// How long plans of some tiles take against what is fitted to all; why is not known.
double over_fit(const GemmPlan& plan, std::int64_t m, int k_steps, int tiles) {
  const GemmTile& t = plan.tile;
  const bool shared = plan.split_tiles > 0;
  // 30 plans of 37 problems, m 1024 to 2048, on an H200.
  if (m >= 1024) return is_one_of(t.name, {"c200", "c208"}) ? 1.03 : 1;
  if (m > 128) {
    // Two H200s, m 256 and 512: 20 to 50 % more; tall tiles 9 to 28.
    if (shared && t.pingpong && t.width >= 168)
      return std::max(1.2, over_uneven(plan, k_steps, tiles));
    if (shared && t.rows() > 128 && !t.swapped) return 1.1;
    const double over = std::max(over_few(plan, m, tiles), over_uneven(plan, k_steps, tiles));
    // 50 plans, m 256 and 512, on one, two and four.
    return is_one_of(t.name, {"c64_2x4", "c64_2x2"}) ? 1.06 * over : over;
  }
  if (m > 64) return 1;
  // On one and two, 25 plans: 15 to 25 and 12 to 48 % more.
  if (is_one_of(t.name, {"v32_4x2", "s32_1x2"})) return 1.2;
  // In more than one wave: 14 to 30 % more; with whole tiles alone 15 (s40_1x2) and 4.
  if (tiles > plan.workers && is_one_of(t.name, {"s40_1x2", "s48_1x2", "s56_1x2"})) {
    if (shared) return t.name == "s56_1x2" ? 1.15 : 1.2;
    return t.name == "s40_1x2" ? 1.12 : 1.04;
  }
  if (t.name != "w16") return 1;
  // With idle multiprocessors 11 to 16; else 1 to 3 behind v16 and v16d where predictions are even.
  return !shared && tiles < plan.workers ? 1.12 : 1.02;
}

}  // namespace

double gemm_time_us(const GemmCost& c, const GemmPlan& plan, std::int64_t m, int multiprocessors) {
  const Fit& f = m <= 32 ? kFewest : m <= 64 ? kFew : m <= 512 ? kSome : kMany;
  const double step = std::max(c.step_flops / kFlopsPerCycle * kProductOverhead / f.clock_ghz,
                               c.step_bytes / f.step_bytes_per_ns) *
                      (1 + f.padding * c.padding);
  const double busiest =
      c.steps * step + c.waves * c.tile_elements * f.ns_per_element * (c.pingpong ? kHiddenEnd : 1);
  const double l2_bytes = c.tile_steps * c.step_bytes * (c.neighbours ? f.neighbours : 1);
  const double energy = c.flops * 1e-6 * f.ns_per_mflop + l2_bytes * 1e-3 * f.ns_per_l2_kb +
                        c.memory_bytes * 1e-3 * f.ns_per_memory_kb;
  const double l2 = c.tile_steps * c.step_bytes / (f.l2_bytes_per_ns * multiprocessors);
  const double memory = c.memory_bytes / f.memory_bytes_per_ns;
  const double partials = 8 * c.tile_elements * f.ns_per_partial_byte * (1 + c.givers) / 2;
  const double shared = c.givers > 0 ? partials + 1000 * f.us_per_giver * c.givers : 0;
  const double ns = limit(busiest, energy, l2, memory) + shared - (c.early ? kEarlyNs : 0);
  return std::max(kLeastUs, f.fixed_us + ns / 1000) * over_fit(plan, m, c.k_steps, c.tiles);
}

}  // namespace tilelace::plan
