// SPDX-License-Identifier: Apache-2.0
#include "plan/gemm/gemm_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <span>
#include <utility>

#include "core/architecture.h"
#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/gemm/gemm_cost.h"
#include "plan/gemm/share.h"

namespace tilelace::plan {
namespace {

/// Schedules count shared k-steps and the tiles of a group in 31 bits.
constexpr int kMostCounted = 1 << 30;
/// Up to here tiles for few tokens are never behind those with tokens across for many.
constexpr std::int64_t kFewestRows = 64;
int parts_of(std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); }

struct Sides {
  std::int64_t rows, cols;
};
Sides sides_of(const GemmTile& t, const GemmProblem& p) {
  return t.swapped ? Sides{p.n, p.m} : Sides{p.m, p.n};
}

schedule::GemmOrder order_of(const GemmPlan& plan, const GemmProblem& p) {
  const GemmTile& t = plan.tile;
  const Sides s = sides_of(t, p);
  return {parts_of(s.rows, t.worker_rows()),
          parts_of(s.cols, t.worker_cols()),
          plan.group,
          plan.along_cols,
          plan.wide,
          plan.deep};
}

int usual_group(const GemmTile& t) {
  return std::max(1, static_cast<int>(kWalkRows / t.worker_rows()));
}

/// Clusters that run at once. Four CTAs fit a GPC's odd multiprocessors badly: 30 of 33 were seen.
int clusters_of(const GemmTile& t, const GemmMachine& machine) {
  if (machine.shared)
    return t.cluster() > kShareCluster ? 0 : share_places(machine.multiprocessors) / t.cluster();
  const int even = machine.multiprocessors / t.cluster();
  return t.cluster() >= 4 && t.per_sm == 1 ? even * 10 / 11 : even;
}

void require_product(const GemmProblem& p) {
  require(p.m > 0 && p.n > 0 && p.k > 0, "gemm: got m {}, n {}, k {}, expected each more than 0",
          p.m, p.n, p.k);
  const std::int64_t grain = grain_of(p.dtype);
  require(p.out_n() % grain == 0 && p.k % grain == 0 && (!p.gated || p.n % 2 == 0),
          "gemm: got n {}, k {}, expected multiples of {} (16 bytes){}", p.n, p.k, grain,
          p.gated ? ", and n / 2 too" : "");
}

class TileCandidates {
 public:
  TileCandidates(const GemmProblem& p, const GemmMachine& machine) : p_(p), machine_(machine) {}

  void add(GemmPlan plan) {
    if (machine_.shared && !stands(plan)) return;
    if (!are_counted(plan.split_tiles, p_.k)) return;
    const schedule::GemmOrder order = order_of(plan, p_);
    plan.group = std::min(plan.group, kMostCounted / std::max(order.rows, order.cols));
    plan.predicted_us = product_us(p_, plan, {order.tiles()}, machine_);
    plans_.push_back(plan);
  }

  void add_tile(const GemmTile& t) {
    if (is_across(t) && p_.m <= kFewestRows) return;
    GemmPlan plan{.tile = t, .workers = clusters_of(t, machine_)};
    plan.architecture = machine_.architecture;
    if (plan.workers < 1) return;
    plan.group = usual_group(t);
    const int tiles = order_of(plan, p_).tiles();
    add(plan);
    add_orders(plan, tiles);
    add_shared(plan, tiles);
    if (t.per_sm == 2 && tiles > plan.workers) {
      plan.workers *= 2;
      add(plan);
    }
  }

  std::vector<GemmPlan> sorted() {
    std::ranges::stable_sort(plans_, {}, &GemmPlan::predicted_us);
    return std::move(plans_);
  }

 private:
  /// Whole tiles need not have all workers; shared k-steps are dealt to so many.
  [[nodiscard]] bool stands(const GemmPlan& plan) const {
    const int places = share_places(machine_.multiprocessors);
    const int cluster = plan.tile.cluster();
    return plan.workers * cluster <= places &&
           (plan.split_tiles == 0 || taken_places(plan.workers * cluster, cluster) <= places);
  }

  /// Other walks over the same tiles.
  void add_orders(GemmPlan plan, int tiles) {
    plan.along_cols = true;
    if (p_.m < 1024 && p_.m >= 128) {
      GemmPlan strip = plan;
      strip.group = 1 << 12;
      add(strip);
    }
    if (p_.m < 256 || plan.tile.cluster() != 2 || tiles < plan.workers) return;
    plan.group = 8;
    plan.by_neighbours = true;
    plan.early_weights = false;
    add(plan);
    plan.wide = 4;
    plan.deep = 2;
    add(plan);
  }

  /// k-steps shared. Where there are many rows, that costs more than the last wave (28 problems of
  /// m 1024 to 2048: 2 to 11 % behind whole tiles).
  void add_shared(GemmPlan plan, int tiles) {
    const int rest = tiles % plan.workers;
    if (rest == 0 || (p_.m >= 1024 && tiles > plan.workers)) return;
    if (tiles * 2 <= plan.workers) {  // each tile cut into equal parts
      GemmPlan even = plan;
      even.workers = plan.workers / tiles * tiles;
      even.split_tiles = tiles;
      if (even.workers != plan.workers) add(even);
    }
    plan.split_tiles = tiles < plan.workers ? tiles : plan.workers + rest;
    add(plan);
    plan.split_tiles = rest;
    if (tiles > plan.workers) add(plan);
  }

  const GemmProblem& p_;
  const GemmMachine& machine_;
  std::vector<GemmPlan> plans_;
};

}  // namespace

bool are_counted(std::int64_t tiles, std::int64_t k) {
  return tiles * parts_of(k, kStep) <= kMostCounted;
}

schedule::GemmWork work_of(const GemmPlan& plan, const GemmProblem& p) {
  return schedule::make_gemm_work(order_of(plan, p), plan.workers, parts_of(p.k, kStep),
                                  plan.split_tiles);
}

schedule::GemmOrder over_tokens(schedule::GemmOrder walk, const GemmTile& tile) {
  if (tile.swapped) std::swap(walk.rows, walk.cols);
  return walk;
}

std::vector<GemmPlan> gemm_candidates(const GemmProblem& p, const GemmMachine& machine) {
  auto all = candidates_by_shard(p, machine);
  std::erase_if(all, [&](const GemmPlan& plan) { return !is_plainly_walked(plan, p.m); });
  return all;
}

std::vector<GemmPlan> candidates_by_shard(const GemmProblem& p, const GemmMachine& machine) {
  require_product(p);
  const std::span<const GemmTile> tiles = plans_of(machine.architecture).tiles;
  const auto fits = [&](const GemmTile& t) { return !p.gated || can_gate(t); };
  require(std::any_of(tiles.begin(), tiles.end(), fits),
          "gemm: {} has no tile that computes gate and up at once",
          name_of_architecture(machine.architecture));
  TileCandidates candidates(p, machine);
  for (const GemmTile& t : tiles)
    if (fits(t)) candidates.add_tile(t);
  auto all = candidates.sorted();
  require(!all.empty(), "gemm: multiprocessors: got {}, expected at least 2",
          machine.multiprocessors);
  return all;
}

std::optional<GemmPlan> in_two_rounds(const GemmPlan& whole, std::int64_t tiles, std::int64_t k) {
  if (!whole.tile.pingpong || whole.split_tiles != 0 || whole.by_neighbours || tiles == 0 ||
      tiles % 2 != 0 || tiles > whole.workers || parts_of(k, kStep) % 2 != 0 ||
      !are_counted(tiles, k))
    return std::nullopt;
  GemmPlan plan = whole;
  plan.split_tiles = plan.workers = static_cast<int>(tiles);
  plan.rounds = 2;
  return plan;
}

GemmPlan plainly_walked(GemmPlan plan, std::int64_t m) {
  if (is_plainly_walked(plan, m)) return plan;
  plan.group = usual_group(plan.tile);
  plan.along_cols = false;
  return plan;
}

bool is_plainly_walked(const GemmPlan& plan, std::int64_t m) {
  return m > plan.tile.worker_tokens() || plan.by_neighbours || !plan.along_cols;
}

GemmPlan beside_others(GemmPlan plan, int multiprocessors) {
  plan.early_weights = false;
  plan.share = share_places(multiprocessors);
  // Shared k-steps are dealt to so many workers; such plans have no more than one a place.
  if (plan.split_tiles == 0)
    plan.workers = plan.tile.cluster() == 1
                       ? standing_ctas(plan.workers, plan.share)
                       : std::min(plan.workers, plan.share / plan.tile.cluster());
  return plan;
}

std::string describe(const GemmPlan& plan) {
  std::string text = fmt::format("{} workers {} split {} group {}", plan.tile.name, plan.workers,
                                 plan.split_tiles, plan.group);
  if (plan.rounds > 1) text += fmt::format(" in {} rounds", plan.rounds);
  if (plan.deep > 1) text += fmt::format(" blocks {}x{}", plan.wide, plan.deep);
  if (plan.along_cols) text += " along n";
  if (plan.by_neighbours) text += " by neighbours";
  if (plan.early_weights) text += " early";
  return text;
}

std::ostream& operator<<(std::ostream& out, const GemmPlan& plan) { return out << describe(plan); }

}  // namespace tilelace::plan
