// SPDX-License-Identifier: Apache-2.0
#include "plan/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "core/check.h"

namespace tilelace::plan {
namespace {

constexpr int kStep = 64;                  // of k
constexpr std::int64_t kGroupRows = 2048;  // rows walked at a time: what stays in L2
constexpr double kPrologueUs = 4;          // launch, first loads, last stores

int ceil_div(std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); }

struct Sides {
  std::int64_t rows, cols;
};
Sides sides_of(const GemmTile& t, const GemmProblem& p) {
  return t.swapped ? Sides{p.n, p.m} : Sides{p.m, p.n};
}

schedule::GemmOrder order_of(const GemmPlan& plan, const GemmProblem& p) {
  const GemmTile& t = plan.tile;
  const Sides s = sides_of(t, p);
  return {ceil_div(s.rows, t.rows() * t.cluster_rows),
          ceil_div(s.cols, t.width * t.cluster_cols),
          plan.group,
          plan.along_cols,
          plan.wide,
          plan.deep};
}

/// Time of one k-step on one multiprocessor, ns: the products (about ten columns' worth of each
/// tile are lost on fragments and barriers), or bringing the operands.
double step_ns(const GemmTile& t, const GemmMachine& machine) {
  const double flops = 2.0 * t.rows() * (t.width + 10) * kStep;
  const double bytes = 128.0 * t.rows() / t.cluster_cols + 128.0 * t.width / t.cluster_rows;
  return std::max(flops / machine.flops_per_ns, bytes / machine.l2_bytes_per_ns);
}

/// Clusters that run at once. Four CTAs fit a GPC's odd multiprocessors badly: 30 of 33 were seen.
int clusters_of(const GemmTile& t, const GemmMachine& machine) {
  const int even = machine.multiprocessors / t.cluster();
  return t.cluster() >= 4 && t.per_sm == 1 ? even * 10 / 11 : even;
}

double predict_us(const GemmPlan& plan, const GemmProblem& p, const GemmMachine& machine) {
  const schedule::GemmWork w = work_of(plan, p);
  const int whole = w.order.tiles() - w.split_tiles;
  const double steps = w.share + (w.longer > 0 ? 1 : 0) +
                       static_cast<double>(ceil_div(whole, w.workers)) * w.k_steps *
                           (w.workers > machine.multiprocessors / plan.tile.cluster() ? 2 : 1);
  const double partial = 4.0 * plan.tile.rows() * plan.tile.width;
  const double shared_ns = w.split_tiles > 0 ? 2 * partial / machine.l2_bytes_per_ns + 1500 : 0;
  const double memory_ns =
      2.0 * static_cast<double>(p.n * p.k + p.m * p.k + p.m * p.n) / machine.memory_bytes_per_ns;
  const double last_ns = 2.0 * plan.tile.rows() * plan.tile.width / machine.l2_bytes_per_ns;
  return kPrologueUs +
         (std::max(steps * step_ns(plan.tile, machine) + last_ns, memory_ns) + shared_ns) / 1000;
}

void require_problem(const GemmProblem& p) {
  require(p.m > 0 && p.n > 0 && p.k > 0, "gemm: m {}, n {}, k {}, expected more than 0", p.m, p.n,
          p.k);
  require(p.n % 8 == 0 && p.k % 8 == 0, "gemm: n {}, k {}, expected multiples of 8 (16 bytes)", p.n,
          p.k);
}

}  // namespace

schedule::GemmWork work_of(const GemmPlan& plan, const GemmProblem& p) {
  return schedule::make_gemm_work(order_of(plan, p), plan.workers, ceil_div(p.k, kStep),
                                  plan.split_tiles);
}

std::vector<GemmPlan> gemm_candidates(const GemmProblem& p, const GemmMachine& machine) {
  require_problem(p);
  std::vector<GemmPlan> plans;
  for (const GemmTile& t : kGemmTiles) {
    GemmPlan plan{.tile = t, .workers = clusters_of(t, machine)};
    plan.group = std::max(1, static_cast<int>(kGroupRows / (t.rows() * t.cluster_rows)));
    const int tiles = order_of(plan, p).tiles();
    const int rest = tiles % plan.workers;
    std::vector<int> splits{0};
    if (t.per_sm == 2 && tiles > plan.workers) {
      GemmPlan both = plan;
      both.workers *= 2;
      both.predicted_us = predict_us(both, p, machine);
      plans.push_back(both);
    }
    // Shared stretches hold 1 to 2 tiles where there are that many, else less than one.
    // Where there are many tiles, sharing costs more than the last wave.
    if (p.m >= 1024 && tiles > 3 * plan.workers)
      splits.clear(), splits.push_back(0);
    else if (rest != 0)
      splits.push_back(tiles < plan.workers ? tiles : plan.workers + rest);
    if (rest != 0 && splits.size() > 1 && tiles > plan.workers) splits.push_back(rest);
    // Few tiles: each cut into equal parts.
    if (tiles * 2 <= plan.workers) {
      GemmPlan even = plan;
      even.workers = plan.workers / tiles * tiles;
      even.split_tiles = tiles;
      even.predicted_us = predict_us(even, p, machine);
      if (even.workers != plan.workers) plans.push_back(even);
    }
    if (p.m >= 1024 && t.cluster() == 2) {
      GemmPlan near = plan;
      near.by_neighbours = true;
      near.early_weights = false;
      near.along_cols = true;
      near.group = 8;
      near.predicted_us = predict_us(near, p, machine);
      plans.push_back(near);
      near.wide = 4;
      near.deep = 2;
      plans.push_back(near);
    }
    for (const int split : splits) {
      if (static_cast<std::int64_t>(split) * ceil_div(p.k, kStep) > 1 << 30) continue;
      plan.split_tiles = split;
      plan.predicted_us = predict_us(plan, p, machine);
      plans.push_back(plan);
    }
  }
  std::stable_sort(plans.begin(), plans.end(), [](const GemmPlan& a, const GemmPlan& b) {
    return a.predicted_us < b.predicted_us;
  });
  return plans;
}

std::string describe(const GemmPlan& plan) {
  std::string text = fmt::format("{} workers {} split {} group {}", plan.tile.name, plan.workers,
                                 plan.split_tiles, plan.group);
  if (plan.deep > 1) text += fmt::format(" blocks {}x{}", plan.wide, plan.deep);
  if (plan.along_cols) text += " along n";
  if (plan.by_neighbours) text += " by neighbours";
  if (plan.early_weights) text += " early";
  return text;
}

std::ostream& operator<<(std::ostream& out, const GemmPlan& plan) { return out << describe(plan); }

}  // namespace tilelace::plan
