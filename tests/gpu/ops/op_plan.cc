// SPDX-License-Identifier: Apache-2.0
#include "ops/op_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "plan/cuda.h"

namespace tilelace::gpu_test {
namespace {

template <class Plans>
void add(std::vector<OpPlan>& all, const Plans& plans) {
  all.insert(all.end(), plans.begin(), plans.end());
}

/// As the public planner makes them of the fused ones.
void add_behind(std::vector<OpPlan>& all) {
  for (std::size_t i = all.size(); i-- > 0;) {
    auto plan = std::get<plan::AgGemmPlan>(all[i]);
    if (plan.path != Path::fused) continue;
    plan.path = Path::unfused;
    plan.joins.clear();
    all.emplace_back(plan);
  }
}

}  // namespace

std::vector<OpPlan> candidates_of(const Problem& problem, const plan::GemmMachine& machine,
                                  const Extras& extras) {
  std::vector<OpPlan> plans;
  if (problem.op == Op::ag_gemm) add(plans, plan::ag_gemm_candidates(problem, machine));
  if (problem.op == Op::ag_gemm && extras.nccl)
    add(plans, plan::ag_gemm_nccl_candidates(problem, machine));
  if (problem.op == Op::ag_gemm && extras.behind) add_behind(plans);
  if (problem.op == Op::gemm_rs) add(plans, plan::gemm_rs_candidates(problem, machine));
  if (problem.op == Op::gemm_ar) add(plans, plan::gemm_ar_candidates(problem, machine));
  if (problem.op != Op::ag_gemm) add(plans, plan::gemm_reduce_candidates(problem, machine));
  if (problem.op == Op::gemm_rs && extras.hands)
    for (const auto way : {plan::HandWay::copied, plan::HandWay::added, plan::HandWay::ring})
      add(plans, plan::gemm_hand_candidates(problem, way, machine));
  if (problem.op == Op::gemm_ar) add(plans, plan::gemm_sums_candidates(problem, machine));
  if (extras.made != nullptr)
    std::erase_if(plans, [&](const OpPlan& p) { return !extras.made(gemm_of(p), problem.dtype); });
  std::stable_sort(plans.begin(), plans.end(), [](const OpPlan& x, const OpPlan& y) {
    return predicted_us(x) < predicted_us(y);
  });
  require(!plans.empty(), "{}: {}, got no plan, expected one", name_of(problem.op),
          text_of(problem));
  return plans;
}

OpPlan default_of(const Problem& problem) {
  const Plan plan = plan::make_cuda_plan(problem, cuda_machine(), {});
  if (problem.op == Op::ag_gemm) return plan::ag_gemm_plan_of(plan);
  if (plan.path != Path::fused) return plan::gemm_reduce_plan_of(plan);
  if (problem.op == Op::gemm_rs) return plan::gemm_rs_plan_of(plan);
  if (plan::keeps_partials(plan)) return plan::directly(plan::gemm_sums_plan_of(plan));
  plan::GemmArPlan shared = plan::gemm_ar_plan_of(plan);
  shared.direct = true;
  return shared;
}

std::string describe(const OpPlan& plan) {
  return std::visit([](const auto& p) { return plan::describe(p); }, plan);
}

Path path_of(const OpPlan& plan) {
  if (const auto* hand = std::get_if<plan::GemmHandPlan>(&plan)) return plan::path_of(hand->way);
  if (std::holds_alternative<plan::GemmReducePlan>(plan)) return Path::unfused;
  const auto* gather = std::get_if<plan::AgGemmPlan>(&plan);
  return gather != nullptr ? gather->path : Path::fused;
}

int roundings_of(const OpPlan& plan, const Problem& problem) {
  if (const auto* hand = std::get_if<plan::GemmHandPlan>(&plan))
    return plan::roundings_of(hand->way, problem.ranks);
  return 1;
}

double frobenius_limit(const OpPlan& plan, const Problem& problem) {
  const double u = unit_roundoff(problem.dtype);
  const auto* hand = std::get_if<plan::GemmHandPlan>(&plan);
  if (hand == nullptr || hand->way == plan::HandWay::copied)
    return (problem.op == Op::ag_gemm ? 0.52 : 0.72) * u;
  // One rounding errs by 0.52 u of what is rounded: a sum of i of the ranks' equal parts has i of
  // the result's variance each. Both ways round each part by itself, then sums of 2, 3, ...; the
  // last one is the result of the ring, and what was added is read and rounded once more.
  const double ranks = problem.ranks;
  const double ring = 1 + (ranks + 1) / 2 - 1 / ranks;
  return 0.52 * u * std::sqrt(hand->way == plan::HandWay::ring ? ring : ring + 1);
}

bool is_steady(const OpPlan& plan) {
  const auto* hand = std::get_if<plan::GemmHandPlan>(&plan);
  return hand == nullptr || hand->way != plan::HandWay::added;
}

bool is_captured_on_shares(const OpPlan& plan) {
  const auto* gather = std::get_if<plan::AgGemmPlan>(&plan);
  return gather == nullptr || gather->path == Path::unfused || gather->left_free() == 0;
}

namespace {

std::string way_of(const OpPlan& plan) {
  if (const auto* hand = std::get_if<plan::GemmHandPlan>(&plan);
      hand != nullptr && hand->way == plan::HandWay::ring)
    return "unfused ring";
  if (const auto* sum = std::get_if<plan::GemmReducePlan>(&plan);
      sum != nullptr && sum->transport == Transport::push)
    return sum->shots == 2 ? "unfused push in two shots" : "unfused push";
  if (path_of(plan) != Path::fused)
    return fmt::format("{} {}", name_of(path_of(plan)), name_of(transport_of(plan)));
  if (const auto* all = std::get_if<plan::GemmArPlan>(&plan))
    return fmt::format("store {}{}", all->direct ? "direct" : "staged",
                       all->by_columns ? " by columns" : "");
  if (const auto* sums = std::get_if<plan::GemmSumsPlan>(&plan))
    return fmt::format("pull {}", sums->shots == 1 ? "in one shot"
                                  : sums->direct   ? "direct"
                                                   : "staged");
  if (const auto* scatter = std::get_if<plan::GemmRsPlan>(&plan); scatter != nullptr)
    return scatter->pairs                        ? "store by pairs"
           : plan::is_across(scatter->gemm.tile) ? "store by shard across"
                                                 : "store by shard";
  const auto* gather = std::get_if<plan::AgGemmPlan>(&plan);
  if (gather != nullptr && gather->route == RouteKind::ring) return "ring by shard";
  return fmt::format("{} {}", name_of(transport_of(plan)),
                     gather != nullptr && gather->whole ? "whole" : "by shard");
}

}  // namespace

std::string kind_of(const OpPlan& plan) {
  return way_of(plan) + (gemm_of(plan).rounds > 1 ? " in rounds" : "");
}

const std::vector<std::string>& known_kinds() {
  static const std::vector<std::string> kinds{"push by shard",
                                              "pull by shard",
                                              "ring by shard",
                                              "nccl by shard",
                                              "medium push",
                                              "store by shard",
                                              "store by shard across",
                                              "store by pairs",
                                              "store whole",
                                              "store direct",
                                              "store staged",
                                              "store direct by columns",
                                              "store staged by columns",
                                              "store direct by columns in rounds",
                                              "store staged by columns in rounds",
                                              "pull in one shot",
                                              "pull direct",
                                              "pull staged",
                                              "unfused pull",
                                              "unfused store",
                                              "unfused push",
                                              "unfused push in two shots",
                                              "unfused add",
                                              "unfused ring"};
  return kinds;
}

Transport transport_of(const OpPlan& plan) {
  if (const auto* hand = std::get_if<plan::GemmHandPlan>(&plan))
    return plan::transport_of(hand->way);
  if (const auto* sum = std::get_if<plan::GemmReducePlan>(&plan)) return sum->transport;
  if (std::holds_alternative<plan::GemmSumsPlan>(plan)) return Transport::pull;
  const auto* gather = std::get_if<plan::AgGemmPlan>(&plan);
  return gather != nullptr ? gather->transport : Transport::store;
}

const plan::GemmPlan& gemm_of(const OpPlan& plan) {
  return std::visit([](const auto& p) -> const plan::GemmPlan& { return p.gemm; }, plan);
}

double predicted_us(const OpPlan& plan) {
  return std::visit([](const auto& p) { return p.predicted_us; }, plan);
}

std::string text_of(const Problem& p) {
  return fmt::format(
      "{} {} ranks {} m {}{} n {} k {}{}{}{}{}", name_of(p.op), name_of(p.dtype), p.ranks, p.m,
      p.rows.empty() ? "" : fmt::format(" rows {}", fmt::join(p.rows, "+")), fmt::join(p.n, "+"),
      p.k, p.bias ? " bias" : "",
      p.activation == Activation::none ? "" : fmt::format(" {}", name_of(p.activation)),
      p.return_gathered ? " gathered" : "", p.residual ? " residual" : "");
}

}  // namespace tilelace::gpu_test
