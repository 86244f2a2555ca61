// SPDX-License-Identifier: Apache-2.0
#include "plan/cuda_ways.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"
#include "plan/cuda.h"
#include "plan/cuda_parts.h"

namespace tilelace::plan {
namespace {

bool among(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string cut_of(const Plan& plan) {
  if (plan.op == Op::ag_gemm)
    return plan.path != Path::fused ? "" : plan.straddle ? " whole" : " by shard";
  if (plan.path == Path::fused && plan.op == Op::gemm_rs)
    return plan.straddle                        ? " by pairs"
           : is_across(gemm_plan_of(plan).tile) ? " by shard across"
                                                : " by shard";
  const int shots = plan.kernel.shots;
  return fmt::format("{}{}{}", plan.kernel.by_columns ? " by columns" : "",
                     plan.kernel.rounds > 1 ? " in rounds" : "",
                     shots == 1 && plan.op == Op::gemm_ar ? " in one shot"
                     : shots == 2                         ? " in two shots"
                                                          : "");
}

}  // namespace

std::string kind_of(const Plan& plan) {
  return fmt::format(
      "{}{}{}", plan.path == Path::fused ? "" : fmt::format("{} ", name_of(plan.path)),
      plan.route == RouteKind::ring ? name_of(plan.route) : name_of(plan.transport), cut_of(plan));
}

const std::vector<std::string>& known_kinds() {
  static const std::vector<std::string> kinds{"push by shard",
                                              "pull by shard",
                                              "ring by shard",
                                              "nccl by shard",
                                              "store by shard",
                                              "store whole",
                                              "store by pairs",
                                              "store by shard across",
                                              "store",
                                              "store by columns",
                                              "store by columns in rounds",
                                              "pull in one shot",
                                              "pull in two shots",
                                              "multimem",
                                              "medium push",
                                              "unfused push",
                                              "unfused push in one shot",
                                              "unfused push in two shots",
                                              "unfused pull",
                                              "unfused store",
                                              "unfused ring",
                                              "unfused nccl",
                                              "unfused add"};
  return kinds;
}

std::vector<CudaWay> cuda_ways(const Problem& p, const Machine& machine,
                               const std::vector<std::string>& kinds) {
  for (const std::string& kind : kinds)
    require(among(known_kinds(), kind), "kinds: got {}, expected some of {}", kind,
            fmt::join(known_kinds(), ", "));
  std::vector<TimedPlan> plans =
      p.op == Op::ag_gemm ? every_gather_plan(p, machine, false) : every_reduce_plan(p, machine);
  if (p.op == Op::ag_gemm && (among(kinds, "nccl by shard") || among(kinds, "unfused nccl")))
    for (TimedPlan& plan : every_gather_plan(p, machine, true)) plans.push_back(std::move(plan));
  if (p.op == Op::gemm_ar && among(kinds, "multimem")) {
    PlanOptions asked;
    asked.transport = Transport::multimem;
    plans.push_back({make_cuda_plan(p, machine, asked), 0});
  }
  std::vector<CudaWay> all;
  for (TimedPlan& plan : plans) {
    std::string kind = kind_of(plan.plan);
    all.push_back({std::move(plan.plan), std::move(kind), plan.predicted_us});
  }
  require(!all.empty(), "{}: plans on GPUs, got none, expected one", name_of(p.op));
  const auto other = [&](const CudaWay& way) { return !among(kinds, way.kind); };
  if (!std::all_of(all.begin(), all.end(), other)) std::erase_if(all, other);
  std::stable_sort(all.begin(), all.end(), [](const CudaWay& a, const CudaWay& b) {
    return a.predicted_us < b.predicted_us;
  });
  return all;
}

}  // namespace tilelace::plan
