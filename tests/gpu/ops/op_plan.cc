// SPDX-License-Identifier: Apache-2.0
#include "ops/op_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/check.h"
#include "schedule/rows.h"

namespace tilelace::gpu_test {
namespace {

template <class Plans>
std::vector<OpPlan> any_of(const Plans& plans) {
  return {plans.begin(), plans.end()};
}

}  // namespace

std::vector<OpPlan> candidates_of(const Problem& problem, const plan::GemmMachine& machine) {
  auto plans = problem.op == Op::gemm_rs ? any_of(plan::gemm_rs_candidates(problem, machine))
                                         : any_of(plan::ag_gemm_candidates(problem, machine));
  require(!plans.empty(), "{}: {}, got no plan, expected one", name_of(problem.op),
          text_of(problem));
  return plans;
}

std::string describe(const OpPlan& plan) {
  return std::visit([](const auto& p) { return plan::describe(p); }, plan);
}

std::string kind_of(const OpPlan& plan) {
  const auto* gather = std::get_if<plan::AgGemmPlan>(&plan);
  return fmt::format("{} {}", name_of(transport_of(plan)),
                     gather != nullptr && gather->whole ? "whole" : "by shard");
}

Transport transport_of(const OpPlan& plan) {
  const auto* gather = std::get_if<plan::AgGemmPlan>(&plan);
  return gather != nullptr ? gather->transport : Transport::store;
}

double predicted_us(const OpPlan& plan) {
  return std::visit([](const auto& p) { return p.predicted_us; }, plan);
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

OpShape::OpShape(const Problem& problem, int rank) : sums(problem.op != Op::ag_gemm) {
  const auto borders = borders_of(problem);
  const auto self = static_cast<std::size_t>(rank);
  const std::int64_t first = borders.at(self);
  const std::int64_t rows = borders.at(self + 1) - first;
  inputs = sums ? problem.m : rows;
  input_row = sums ? 0 : first;
  results = sums ? rows : problem.m;
  result_row = sums ? first : 0;
  parts = sums ? problem.ranks : 1;
  own_part = sums ? rank : 0;
}

std::string text_of(const Problem& p) {
  return fmt::format(
      "{} {} ranks {} m {}{} n {} k {}{}{}{}", name_of(p.op), name_of(p.dtype), p.ranks, p.m,
      p.rows.empty() ? "" : fmt::format(" rows {}", fmt::join(p.rows, "+")), fmt::join(p.n, "+"),
      p.k, p.bias ? " bias" : "",
      p.activation == Activation::none ? "" : fmt::format(" {}", name_of(p.activation)),
      p.return_gathered ? " gathered" : "");
}

}  // namespace tilelace::gpu_test
