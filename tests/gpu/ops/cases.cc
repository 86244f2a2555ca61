// SPDX-License-Identifier: Apache-2.0
#include "ops/cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "conformance/problems.h"
#include "core/check.h"

namespace tilelace::gpu_test {
namespace {

using conformance::Random;

constexpr std::int64_t kMostChunks = 16;  // of a shard
constexpr int kEmptyCase = 4;             // this one has no rows, as others have now and then
constexpr int kMostDraws = 1000;          // of a problem that has one of the kinds

conformance::Domain domain_of(Random& random, const CaseRange& range, bool exact) {
  const auto& tile = plan::kGemmTiles[random.next() % std::size(plan::kGemmTiles)];
  const std::int64_t most = range.small ? 4 : 1;
  conformance::Domain d;
  d.unit = 8;
  d.least_rows = 1;
  d.most_rows = kMostRows / most;
  d.most_cols = kMostCols / most;
  d.most_depth = kMostK / most;
  d.most_weights = kMostWeights;
  d.down = tile.swapped ? tile.width : tile.rows();
  d.across = tile.swapped ? tile.rows() : tile.width;
  d.more_rows = {61, 127, 509, 997, 1009};
  d.more_cols = {328};
  d.depths = {8, 24, 56, 64, 72, 104, 128, 264, 1016, 1024, 2048};
  d.exact = exact;
  d.gated = range.gated;
  return d;
}

/// Kinds, then sorts, then plans, each as likely as its like: not as often as it is listed.
OpPlan draw_plan(Random& random, const PlansByKind& kinds) {
  const auto kind = std::next(kinds.begin(), random.below(std::ssize(kinds)));
  std::map<std::string, std::vector<OpPlan>> by_sort;
  for (const OpPlan& plan : kind->second) by_sort[sort_of(plan)].push_back(plan);
  const auto& plans = std::next(by_sort.begin(), random.below(std::ssize(by_sort)))->second;
  return plans.at(static_cast<std::size_t>(random.below(std::ssize(plans))));
}

/// Of a problem that has one of the kinds: `c.problem` and its plan.
void draw_case(Random& random, const CaseRange& range, Case& c) {
  const Extras extras = extras_of(range.kinds, range.made);
  for (int draw = 0; draw < kMostDraws; ++draw) {
    const auto domain = domain_of(random, range, c.exact);
    c.problem = conformance::draw_problem(random, range.op, range.ranks, range.dtype, domain);
    const PlansByKind kinds = only(plans_by_kind(c.problem, range.machine, extras), range.kinds);
    if (kinds.empty()) continue;
    c.plan = draw_plan(random, kinds);
    return;
  }
  raise(ErrorKind::usage,
        "--kinds {}: {} on {} ranks of {} multiprocessors, got {} problems without these plans, "
        "expected one that has them",
        fmt::join(range.kinds, ","), name_of(range.op), range.ranks, range.machine.multiprocessors,
        kMostDraws);
}

/// Shards of these sizes are one block to the planner, too.
void vary_order(Random& random, plan::GemmArPlan& plan, const Problem& p) {
  if (random.below(2) == 0 && !plan.by_columns) plan.block_rows = plan.gemm.tile.worker_rows();
  if (random.below(2) == 0)
    plan.lag = 1 + static_cast<int>(random.below(1 + p.n.front() / plan.gemm.tile.worker_cols()));
}

/// To the planner shards of these sizes never join the own one.
void vary_order(Random& random, plan::AgGemmPlan& plan, const Problem& p) {
  if (random.below(2) == 0) return;
  const std::int64_t tiles =
      (1 + p.m / plan.gemm.tile.worker_rows()) * (1 + p.n.front() / plan.gemm.tile.worker_cols());
  plan.joins.clear();
  for (int i = 1; i < p.ranks; ++i)
    plan.joins.push_back(static_cast<int>(random.below(3) * random.below(1 + tiles / 2)));
}

/// To the planner own tiles are every worker's last: leave some with work behind them.
void vary_workers(Random& random, plan::GemmRsPlan& plan, const Problem& p) {
  if (!plan.pairs || plan.gemm.by_neighbours || random.below(2) == 0) return;
  const auto cols = 1 + p.n.front() / plan.gemm.tile.width;
  plan.gemm.workers = std::min(plan.gemm.workers, 1 + static_cast<int>(random.below(cols)));
}

/// Shards of these sizes are one chunk to the planner: cut them all the same.
void vary_chunks(Random& random, OpPlan& plan, const Problem& p) {
  if (auto* const scatter = std::get_if<plan::GemmRsPlan>(&plan)) vary_workers(random, *scatter, p);
  if (auto* const all = std::get_if<plan::GemmArPlan>(&plan)) vary_order(random, *all, p);
  auto* const gather = std::get_if<plan::AgGemmPlan>(&plan);
  if (gather != nullptr) vary_order(random, *gather, p);
  auto* const sum = std::get_if<plan::GemmReducePlan>(&plan);
  auto* const hand = std::get_if<plan::GemmHandPlan>(&plan);
  if ((gather == nullptr && sum == nullptr && hand == nullptr) || random.below(2) == 0) return;
  const auto borders = borders_of(p);
  std::int64_t most = 1;
  for (std::size_t r = 0; r + 1 < borders.size(); ++r)
    most = std::max(most, borders[r + 1] - borders[r]);
  (gather != nullptr ? gather->chunk_rows
   : sum != nullptr  ? sum->chunk_rows
                     : hand->chunk_rows) =
      std::max<std::int64_t>(1, most / (1 + random.below(kMostChunks))) + random.below(2);
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
  Random random(seed);
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i) {
    Case c;
    c.index = i;
    c.exact = i % 2 == 0 && !range.gated;  // silu knows no integers
    draw_case(random, range, c);
    vary_chunks(random, c.plan, c.problem);
    // Calls without any row keep ranks in step, and write nothing.
    if (i == kEmptyCase || random.below(40) == 0) {
      c.problem.m = 0;
      c.problem.rows.clear();
    }
    c.odd = random.below(2) == 0;
    c.seed = random.next();
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
