// SPDX-License-Identifier: Apache-2.0
#include "ops/cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>

#include "core/check.h"

namespace tilelace::gpu_test {
namespace {

using Rng = std::mt19937_64;

constexpr std::int64_t kMostChunks = 16;  // of a shard
constexpr int kEmptyCase = 4;             // this one has no rows, as others have now and then
constexpr int kMostDraws = 1000;          // of a problem that has one of the kinds

std::int64_t below(Rng& rng, std::int64_t end) {
  return static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(end));
}

/// One of the edges, or anything up to `most`; a multiple of `unit`.
std::int64_t pick(Rng& rng, const std::vector<std::int64_t>& edges, std::int64_t most,
                  std::int64_t unit) {
  if (below(rng, 2) == 0) return (1 + below(rng, most / unit)) * unit;
  const auto edge = edges.at(static_cast<std::size_t>(below(rng, std::ssize(edges))));
  return std::clamp((edge + unit - 1) / unit * unit, unit, most / unit * unit);
}

/// Shards that are not even: cut anywhere, one rank without rows, or all rows on one rank.
std::vector<std::int64_t> draw_rows(Rng& rng, int ranks, std::int64_t m) {
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<std::int64_t> rows(count, 0);
  const auto kind = below(rng, 4);
  if (kind == 0) {
    rows.at(static_cast<std::size_t>(below(rng, ranks))) = m;
    return rows;
  }
  std::vector<std::int64_t> cuts{0, m};
  for (std::size_t i = 1; i < count; ++i) {
    const std::int64_t cut = below(rng, m + 1);
    cuts.push_back(kind == 1 ? cut / 64 * 64 : cut);
  }
  std::sort(cuts.begin(), cuts.end());
  for (std::size_t i = 0; i < count; ++i) rows[i] = cuts[i + 1] - cuts[i];
  if (kind == 2) {
    const auto from = static_cast<std::size_t>(below(rng, ranks));
    rows[(from + 1) % count] += rows[from];
    rows[from] = 0;
  }
  return rows;
}

Problem draw_problem(Rng& rng, const CaseRange& range, bool exact) {
  const int ranks = range.ranks;
  const auto& tile = plan::kGemmTiles[rng() % std::size(plan::kGemmTiles)];
  const std::int64_t most = range.small ? 4 : 1;
  const std::int64_t down = tile.swapped ? tile.width : tile.rows();
  const std::int64_t across = tile.swapped ? tile.rows() : tile.width;
  Problem p;
  p.op = range.op;
  p.ranks = ranks;
  p.dtype = range.dtype;
  // Tiles' edges in all rows together, and in a shard.
  p.m = pick(rng,
             {1, std::max(1, ranks - 1), ranks, ranks + 1, down - 1, down, down + 1, 2 * down + 1,
              ranks * down - 1, ranks * down, ranks * down + 1, 61, 127, 509, 997, 1009},
             kMostRows / most, 1);
  if (p.op != Op::gemm_ar && below(rng, 3) == 0) p.rows = draw_rows(rng, ranks, p.m);
  const auto columns = [&] {
    return pick(rng, {8, 24, across - 8, across, across + 8, 2 * across, 328}, kMostCols / most, 8);
  };
  p.n.push_back(columns());
  if (p.op == Op::ag_gemm && below(rng, 3) == 0)
    for (auto more = below(rng, kMostWeights - 1); more >= 0; --more)
      p.n.push_back(below(rng, 2) == 0 ? p.n[0] : columns());
  p.k = pick(rng, {8, 24, 56, 64, 72, 104, 128, 264, 1016, 1024, 2048}, kMostK / most, 8);
  p.bias = !exact && below(rng, 2) == 0;
  if (!exact && below(rng, 2) == 0) p.activation = static_cast<Activation>(1 + below(rng, 3));
  if (p.op != Op::ag_gemm && below(rng, 3) == 0) {
    p.residual = true;
    p.activation = Activation::none;
  }
  p.return_gathered = p.op == Op::ag_gemm && below(rng, 2) == 0;
  if (p.op == Op::ag_gemm && !exact && (below(rng, 4) == 0 || range.gated)) {
    p.activation = Activation::swiglu;
    p.n = {p.n[0], p.n[0]};
  }
  return p;
}

/// Kinds, then sorts, then plans, each as likely as its like: not as often as it is listed.
OpPlan draw_plan(Rng& rng, const PlansByKind& kinds) {
  const auto kind = std::next(kinds.begin(), below(rng, std::ssize(kinds)));
  std::map<std::string, std::vector<OpPlan>> by_sort;
  for (const OpPlan& plan : kind->second) by_sort[sort_of(plan)].push_back(plan);
  const auto& plans = std::next(by_sort.begin(), below(rng, std::ssize(by_sort)))->second;
  return plans.at(static_cast<std::size_t>(below(rng, std::ssize(plans))));
}

/// Of a problem that has one of the kinds: `c.problem` and its plan.
void draw_case(Rng& rng, const CaseRange& range, Case& c) {
  const Extras extras = extras_of(range.kinds, range.made);
  for (int draw = 0; draw < kMostDraws; ++draw) {
    c.problem = draw_problem(rng, range, c.exact);
    const PlansByKind kinds = only(plans_by_kind(c.problem, range.machine, extras), range.kinds);
    if (kinds.empty()) continue;
    c.plan = draw_plan(rng, kinds);
    return;
  }
  raise(ErrorKind::usage,
        "--kinds {}: {} on {} ranks of {} multiprocessors, got {} problems without these plans, "
        "expected one that has them",
        fmt::join(range.kinds, ","), name_of(range.op), range.ranks, range.machine.multiprocessors,
        kMostDraws);
}

/// Shards of these sizes are one block to the planner, too.
void vary_order(Rng& rng, plan::GemmArPlan& plan, const Problem& p) {
  if (below(rng, 2) == 0 && !plan.by_columns) plan.block_rows = plan.gemm.tile.worker_rows();
  if (below(rng, 2) == 0)
    plan.lag = 1 + static_cast<int>(below(rng, 1 + p.n.front() / plan.gemm.tile.worker_cols()));
}

/// To the planner shards of these sizes never join the own one.
void vary_order(Rng& rng, plan::AgGemmPlan& plan, const Problem& p) {
  if (below(rng, 2) == 0) return;
  const std::int64_t tiles =
      (1 + p.m / plan.gemm.tile.worker_rows()) * (1 + p.n.front() / plan.gemm.tile.worker_cols());
  plan.joins.clear();
  for (int i = 1; i < p.ranks; ++i)
    plan.joins.push_back(static_cast<int>(below(rng, 3) * below(rng, 1 + tiles / 2)));
}

/// To the planner own tiles are every worker's last: leave some with work behind them.
void vary_workers(Rng& rng, plan::GemmRsPlan& plan, const Problem& p) {
  if (!plan.pairs || plan.gemm.by_neighbours || below(rng, 2) == 0) return;
  const auto cols = 1 + p.n.front() / plan.gemm.tile.width;
  plan.gemm.workers = std::min(plan.gemm.workers, 1 + static_cast<int>(below(rng, cols)));
}

/// Shards of these sizes are one chunk to the planner: cut them all the same.
void vary_chunks(Rng& rng, OpPlan& plan, const Problem& p) {
  if (auto* const scatter = std::get_if<plan::GemmRsPlan>(&plan)) vary_workers(rng, *scatter, p);
  if (auto* const all = std::get_if<plan::GemmArPlan>(&plan)) vary_order(rng, *all, p);
  auto* const gather = std::get_if<plan::AgGemmPlan>(&plan);
  if (gather != nullptr) vary_order(rng, *gather, p);
  auto* const sum = std::get_if<plan::GemmReducePlan>(&plan);
  auto* const hand = std::get_if<plan::GemmHandPlan>(&plan);
  if ((gather == nullptr && sum == nullptr && hand == nullptr) || below(rng, 2) == 0) return;
  const auto borders = borders_of(p);
  std::int64_t most = 1;
  for (std::size_t r = 0; r + 1 < borders.size(); ++r)
    most = std::max(most, borders[r + 1] - borders[r]);
  (gather != nullptr ? gather->chunk_rows
   : sum != nullptr  ? sum->chunk_rows
                     : hand->chunk_rows) =
      std::max<std::int64_t>(1, most / (1 + below(rng, kMostChunks))) + below(rng, 2);
}

}  // namespace

std::string sort_of(const OpPlan& plan) {
  if (const auto* hand = std::get_if<plan::GemmHandPlan>(&plan))
    return std::string(hand->gemm.tile.name);
  if (const auto* gather = std::get_if<plan::AgGemmPlan>(&plan))
    return fmt::format("{:012}", gather->chunk_rows);
  if (const auto* sum = std::get_if<plan::GemmReducePlan>(&plan))
    return std::string(sum->gemm.tile.name);
  if (const auto* all = std::get_if<plan::GemmArPlan>(&plan))
    return fmt::format("{} {}", all->gemm.tile.name, all->lag);
  if (const auto* all = std::get_if<plan::GemmSumsPlan>(&plan))
    return std::string(all->gemm.tile.name);
  return std::string(std::get<plan::GemmRsPlan>(plan).gemm.tile.name);
}

Extras extras_of(const std::vector<std::string>& kinds,
                 bool (*made)(const plan::GemmPlan&, DType)) {
  const auto named = [&](std::string_view name) {
    return std::any_of(kinds.begin(), kinds.end(),
                       [&](const std::string& kind) { return kind.starts_with(name); });
  };
  return {named("nccl"), true, named("unfused"), made};
}

PlansByKind plans_by_kind(const Problem& problem, const plan::GemmMachine& machine,
                          const Extras& extras) {
  PlansByKind kinds;
  for (const OpPlan& plan : candidates_of(problem, machine, extras))
    kinds[kind_of(plan)].push_back(plan);
  return kinds;
}

PlansByKind only(PlansByKind plans, const std::vector<std::string>& kinds) {
  if (kinds.empty()) return plans;
  PlansByKind some;
  for (const std::string& kind : kinds)
    if (const auto at = plans.find(kind); at != plans.end()) some.insert(*at);
  return some;
}

std::vector<Case> draw_cases(int count, const CaseRange& range, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i) {
    Case c;
    c.index = i;
    c.exact = i % 2 == 0 && !range.gated;  // silu knows no integers
    draw_case(rng, range, c);
    vary_chunks(rng, c.plan, c.problem);
    // Calls without any row keep ranks in step, and write nothing.
    if (i == kEmptyCase || below(rng, 40) == 0) {
      c.problem.m = 0;
      c.problem.rows.clear();
    }
    c.odd = below(rng, 2) == 0;
    c.seed = rng();
    std::visit([&](auto& plan) { plan.gemm.weights_wait = c.seed % 3 == 0; }, c.plan);
    cases.push_back(std::move(c));
  }
  return cases;
}

std::string text_of(const Case& c) {
  return fmt::format("case {} {} {}, {}", c.index, text_of(c.problem), c.exact ? "exact" : "normal",
                     describe(c.plan));
}

}  // namespace tilelace::gpu_test
