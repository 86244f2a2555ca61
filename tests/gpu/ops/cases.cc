// SPDX-License-Identifier: Apache-2.0
#include "ops/cases.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <iterator>

#include "conformance/problems.h"
#include "core/check.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/gpu/kernel_choice.h"

namespace tilelace::gpu_test {
namespace {

using conformance::Random;

constexpr std::int64_t kMostChunks = 16;  // of a shard
constexpr int kEmptyCase = 4;             // this one has no rows, as others have now and then
constexpr int kMostDraws = 1000;          // of a problem that has one of the kinds

conformance::Domain domain_of(Random& random, const CaseRange& range, bool exact) {
  const auto tiles = plan::plans_of(range.ways.machine.architecture).tiles;
  const plan::GemmTile& tile = tiles[random.next() % tiles.size()];
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
Plan draw_plan(Random& random, const WaysByKind& kinds) {
  const auto kind = std::next(kinds.begin(), random.below(std::ssize(kinds)));
  std::map<std::string, std::vector<Plan>> by_sort;
  for (const CudaWay& way : kind->second) by_sort[sort_of(way.plan)].push_back(way.plan);
  return random.pick(std::next(by_sort.begin(), random.below(std::ssize(by_sort)))->second);
}

/// Of a problem that has one of the kinds: `c.problem` and its plan.
void draw_case(Random& random, const CaseRange& range, Case& c) {
  for (int draw = 0; draw < kMostDraws; ++draw) {
    const auto domain = domain_of(random, range, c.exact);
    c.problem = conformance::draw_problem(random, range.op, range.ranks, range.dtype, domain);
    const WaysByKind kinds = ways_by_kind(c.problem, range.ways);
    if (kinds.empty()) continue;
    c.plan = draw_plan(random, kinds);
    return;
  }
  raise(ErrorKind::usage,
        "--kinds {}: {} on {} ranks of {} multiprocessors, got {} problems without these plans, "
        "expected one that has them",
        fmt::join(range.ways.kinds, ","), name_of(range.op), range.ranks,
        range.ways.machine.multiprocessors, kMostDraws);
}

/// To the planner a block is all rows of these sizes, too.
void vary(Random& random, plan::GemmArWay& way, const Problem& p) {
  const plan::GemmTile& tile = way.gemm.tile;
  if (random.below(2) == 0 && !way.by_columns) way.block_rows = tile.worker_rows();
  if (random.below(2) == 0)
    way.lag = 1 + static_cast<int>(random.below(1 + p.n.front() / tile.worker_cols()));
}

/// To the planner own tiles are every worker's last: leave some with work behind them.
void vary(Random& random, plan::GemmRsWay& way, const Problem& p) {
  if (!way.pairs || way.gemm.by_neighbours || random.below(2) == 0) return;
  const auto cols = 1 + p.n.front() / way.gemm.tile.width;
  way.gemm.workers = std::min(way.gemm.workers, 1 + static_cast<int>(random.below(cols)));
}

/// Shards of these sizes are one chunk to the planner: cut them all the same.
void vary_chunks(Random& random, std::int64_t& chunk_rows, const Problem& p) {
  if (random.below(2) == 0) return;
  const auto borders = borders_of(p);
  std::int64_t most = 1;
  for (std::size_t r = 0; r + 1 < borders.size(); ++r)
    most = std::max(most, borders[r + 1] - borders[r]);
  chunk_rows = std::max<std::int64_t>(1, most / (1 + random.below(kMostChunks))) + random.below(2);
}

/// To the planner shards of these sizes never join the own one.
void vary(Random& random, plan::AgGemmWay& way, const Problem& p) {
  if (random.below(2) == 0) {
    const plan::GemmTile& tile = way.gemm.tile;
    const std::int64_t tiles =
        (1 + p.m / tile.worker_rows()) * (1 + p.n.front() / tile.worker_cols());
    way.joins.clear();
    for (int i = 1; i < p.ranks; ++i)
      way.joins.push_back(static_cast<int>(random.below(3) * random.below(1 + tiles / 2)));
  }
  vary_chunks(random, way.chunk_rows, p);
}

void vary(Random& random, plan::UnfusedSumWay& way, const Problem& p) {
  vary_chunks(random, way.chunk_rows, p);
}
void vary(Random& random, plan::CopiedPartialsWay& way, const Problem& p) {
  vary_chunks(random, way.chunk_rows, p);
}
void vary(Random& /*random*/, plan::KeptPartialsWay& /*way*/, const Problem& /*p*/) {}

/// A way like the planner's, with choices that it does not make for these sizes.
void vary(Random& random, Plan& plan, const Problem& p) {
  plan::KernelWay way = plan.kernel->way;
  std::visit([&](auto& w) { vary(random, w, p); }, way);
  plan = plan::plan_of(p, std::move(way));
}

}  // namespace

std::string sort_of(const Plan& plan) {
  if (plan.op == Op::ag_gemm) return fmt::format("{:012}", plan.chunk_rows);
  const auto* const fused = plan::way_if<plan::GemmArWay>(plan);
  return fmt::format("{} {}", plan::gemm_of(plan.kernel->way).tile.name,
                     fused == nullptr ? 0 : fused->lag);
}

double frobenius_limit(Op op, DType dtype) {
  return (op == Op::ag_gemm ? 0.52 : 0.72) * unit_roundoff(dtype);
}

bool is_captured_on_shares(const Plan& plan) {
  const auto* const gather = plan::way_if<plan::AgGemmWay>(plan);
  return gather == nullptr || gather->path == Path::unfused || gather->left_free() == 0;
}

bool named(const std::vector<std::string>& kinds, std::string_view name) {
  return std::any_of(kinds.begin(), kinds.end(),
                     [&](const std::string& kind) { return kind.starts_with(name); });
}

WaysByKind ways_by_kind(const Problem& problem, const WayRange& range) {
  const auto& kinds = range.kinds;
  const bool behind = problem.op != Op::ag_gemm || named(kinds, "unfused");
  Machine machine = range.machine;
  machine.cublas = machine.cublas && !kinds.empty();  // where asked for, as other libraries' ways
  WaysByKind all;
  for (CudaWay& way : plan::cuda_ways(problem, machine, kinds)) {
    if (!kinds.empty() && std::find(kinds.begin(), kinds.end(), way.kind) == kinds.end()) continue;
    if (!behind && way.plan.path == Path::unfused) continue;
    if (range.made && !range.made(plan::gemm_of(way.plan.kernel->way), problem.dtype)) continue;
    all[way.kind].push_back(std::move(way));
  }
  return all;
}

std::vector<Case> draw_cases(int count, const CaseRange& range, std::uint64_t seed) {
  Random random(seed);
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i) {
    Case c;
    c.index = i;
    c.exact = i % 2 == 0 && !range.gated;  // silu knows no integers
    draw_case(random, range, c);
    vary(random, c.plan, c.problem);
    // Calls without any row keep ranks in step, and write nothing.
    if (i == kEmptyCase || random.below(40) == 0) {
      c.problem.m = 0;
      c.problem.rows.clear();
    }
    c.odd = random.below(2) == 0;
    c.seed = random.next();
    cases.push_back(std::move(c));
  }
  return cases;
}

std::string text_of(const Case& c) {
  return fmt::format("case {} {} {}{}, {}", c.index, fmt::streamed(c.problem),
                     c.exact ? "exact" : "normal", c.reachable() ? "" : ", results out of reach",
                     fmt::streamed(c.plan));
}

}  // namespace tilelace::gpu_test
