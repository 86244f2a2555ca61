// SPDX-License-Identifier: Apache-2.0
#include "plan/gpu/gpu_ways.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"
#include "plan/gpu/planners.h"
#include "plan/gpu/way_choice.h"

namespace tilelace::plan {
namespace {

bool among(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string kind_of(const Plan& plan) {
  return plan.kernel == nullptr ? "no rows" : kind_of(plan.op, plan.kernel->way);
}

const std::vector<std::string>& known_kinds() {
  static const std::vector<std::string> kinds{"push by shard",
                                              "pull by shard",
                                              "ring by shard",
                                              "nccl by shard",
                                              "store by shard",
                                              "store whole",
                                              "store by shard with shared steps",
                                              "push by shard with shared steps",
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
                                              "unfused push by lines",
                                              "unfused push in one shot by lines",
                                              "unfused push in two shots by lines",
                                              "unfused pull",
                                              "unfused store",
                                              "unfused store by lines",
                                              "unfused push with cublas",
                                              "unfused push in one shot with cublas",
                                              "unfused push in two shots with cublas",
                                              "unfused push by lines with cublas",
                                              "unfused push in one shot by lines with cublas",
                                              "unfused push in two shots by lines with cublas",
                                              "unfused pull with cublas",
                                              "unfused store with cublas",
                                              "unfused ring",
                                              "unfused nccl"};
  return kinds;
}

std::vector<CudaWay> cuda_ways(const Problem& p, const Machine& machine,
                               const std::vector<std::string>& kinds) {
  for (const std::string& kind : kinds)
    require(among(known_kinds(), kind), "kinds: got {}, expected some of {}", kind,
            fmt::join(known_kinds(), ", "));
  std::vector<KernelWay> ways = planner_of(p.op).every(p, machine, kinds);
  const bool any = std::any_of(ways.begin(), ways.end(), [&](const KernelWay& way) {
    return among(kinds, kind_of(p.op, way));
  });
  std::vector<CudaWay> all;
  for (KernelWay& way : ways) {
    std::string kind = kind_of(p.op, way);
    if (any && !among(kinds, kind)) continue;
    const double us = predicted_us_of(way);
    all.push_back({plan_of(p, std::move(way)), std::move(kind), us});
  }
  require(!all.empty(), "{}: no plan on GPUs fits this problem", name_of(p.op));
  std::ranges::stable_sort(all, {}, &CudaWay::predicted_us);
  return all;
}

}  // namespace tilelace::plan
