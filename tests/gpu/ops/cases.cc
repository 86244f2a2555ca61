// SPDX-License-Identifier: Apache-2.0
#include "ops/cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>

#include "core/check.h"
#include "schedule/rows.h"

namespace tilelace::gpu_test {
namespace {

using Rng = std::mt19937_64;

constexpr std::int64_t kMostChunks = 16;  // of a shard

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

Problem draw_problem(Rng& rng, int ranks, DType dtype, bool exact) {
  const auto& tile = plan::kGemmTiles[rng() % std::size(plan::kGemmTiles)];
  const std::int64_t down = tile.swapped ? tile.width : tile.rows();
  const std::int64_t across = tile.swapped ? tile.rows() : tile.width;
  Problem p;
  p.op = Op::ag_gemm;
  p.ranks = ranks;
  p.dtype = dtype;
  // Tiles' edges in all rows together, and in a shard.
  p.m = pick(rng,
             {1, std::max(1, ranks - 1), ranks, ranks + 1, down - 1, down, down + 1, 2 * down + 1,
              ranks * down - 1, ranks * down, ranks * down + 1, 61, 127, 509, 997, 1009},
             kMostRows, 1);
  if (below(rng, 3) == 0) p.rows = draw_rows(rng, ranks, p.m);
  const auto columns = [&] {
    return pick(rng, {8, 24, across - 8, across, across + 8, 2 * across, 328}, kMostCols, 8);
  };
  p.n.push_back(columns());
  if (below(rng, 3) == 0) p.n.push_back(below(rng, 2) == 0 ? p.n[0] : columns());
  p.k = pick(rng, {8, 24, 56, 64, 72, 104, 128, 264, 1016, 1024, 2048}, kMostK, 8);
  p.bias = !exact && below(rng, 2) == 0;
  if (!exact && below(rng, 2) == 0) p.activation = static_cast<Activation>(1 + below(rng, 3));
  p.return_gathered = below(rng, 2) == 0;
  return p;
}

/// Kinds, then chunk sizes, then plans, each as likely as its like: not as often as it is listed.
plan::AgGemmPlan draw_plan(Rng& rng, const PlansByKind& kinds) {
  const auto kind = std::next(kinds.begin(), below(rng, std::ssize(kinds)));
  std::map<std::int64_t, std::vector<plan::AgGemmPlan>> by_chunk;
  for (const auto& plan : kind->second) by_chunk[plan.chunk_rows].push_back(plan);
  const auto& plans = std::next(by_chunk.begin(), below(rng, std::ssize(by_chunk)))->second;
  return plans.at(static_cast<std::size_t>(below(rng, std::ssize(plans))));
}

/// Shards of these sizes are one chunk to the planner: cut them all the same.
void vary_chunks(Rng& rng, plan::AgGemmPlan& plan, const Problem& p) {
  if (below(rng, 2) == 0) return;
  const auto borders = borders_of(p);
  std::int64_t most = 1;
  for (std::size_t r = 0; r + 1 < borders.size(); ++r)
    most = std::max(most, borders[r + 1] - borders[r]);
  plan.chunk_rows = std::max<std::int64_t>(1, most / (1 + below(rng, kMostChunks))) + below(rng, 2);
}

}  // namespace

std::string kind_of(const plan::AgGemmPlan& plan) {
  return fmt::format("{} {}", name_of(plan.transport), plan.whole ? "whole" : "by shard");
}

PlansByKind plans_by_kind(const Problem& problem, const plan::GemmMachine& machine) {
  PlansByKind kinds;
  for (const auto& plan : plan::ag_gemm_candidates(problem, machine))
    kinds[kind_of(plan)].push_back(plan);
  require(!kinds.empty(), "ag_gemm: {}, got no plan, expected one", text_of(problem));
  return kinds;
}

std::vector<Case> draw_cases(int count, int ranks, DType dtype, const plan::GemmMachine& machine,
                             std::uint64_t seed) {
  Rng rng(seed);
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i) {
    Case c;
    c.index = i;
    c.exact = i % 2 == 0;
    c.problem = draw_problem(rng, ranks, dtype, c.exact);
    c.plan = draw_plan(rng, plans_by_kind(c.problem, machine));
    vary_chunks(rng, c.plan, c.problem);
    // Calls without any row keep ranks in step, and write nothing.
    if (below(rng, 40) == 0) {
      c.problem.m = 0;
      c.problem.rows.clear();
    }
    c.odd = below(rng, 2) == 0;
    c.seed = rng();
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<std::int64_t> borders_of(const Problem& problem) {
  std::vector<std::int64_t> borders{0};
  const schedule::RowSplit even{problem.m, problem.ranks, nullptr};
  for (int r = 0; r < problem.ranks; ++r)
    borders.push_back(problem.rows.empty()
                          ? even.shard(r).end
                          : borders.back() + problem.rows.at(static_cast<std::size_t>(r)));
  return borders;
}

int owner_of(const std::vector<std::int64_t>& borders, std::int64_t row) {
  return static_cast<int>(
      std::distance(borders.begin(), std::upper_bound(borders.begin(), borders.end(), row)) - 1);
}

std::string text_of(const Problem& p) {
  return fmt::format(
      "{} ranks {} m {}{} n {} k {}{}{}{}", name_of(p.dtype), p.ranks, p.m,
      p.rows.empty() ? "" : fmt::format(" rows {}", fmt::join(p.rows, "+")), fmt::join(p.n, "+"),
      p.k, p.bias ? " bias" : "",
      p.activation == Activation::none ? "" : fmt::format(" {}", name_of(p.activation)),
      p.return_gathered ? " gathered" : "");
}

std::string text_of(const Case& c) {
  return fmt::format("case {} {} {}, {}", c.index, text_of(c.problem), c.exact ? "exact" : "normal",
                     plan::describe(c.plan));
}

}  // namespace tilelace::gpu_test
