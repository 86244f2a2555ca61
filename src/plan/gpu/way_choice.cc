// SPDX-License-Identifier: Apache-2.0
#include "plan/gpu/way_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/gpu/staging.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace::plan {
namespace {

std::string cut_of(const AgGemmWay& way) {
  if (way.path != Path::fused) return way.lines ? " by lines" : "";
  return fmt::format(" {}{}", way.whole ? "whole" : "by shard",
                     way.shares_by_shard() ? " with shared steps" : "");
}
std::string cut_of(const GemmRsWay& way) {
  return way.pairs ? " by pairs" : is_across(way.gemm.tile) ? " by shard across" : " by shard";
}
std::string cut_of(const GemmArWay& way) {
  return fmt::format("{}{}", way.by_columns ? " by columns" : "",
                     way.gemm.rounds > 1 ? " in rounds" : "");
}
std::string cut_of(const KeptPartialsWay& way) {
  return way.by_switch ? "" : way.shots == 1 ? " in one shot" : " in two shots";
}
std::string cut_of(const UnfusedSumWay& way) {
  const std::string_view product = way.cublas > 0 ? " with cublas" : "";
  if (!row_of(way.transport).pushes()) return std::string(product);
  return fmt::format(" in {}{}{}", way.shots == 1 ? "one shot" : "two shots",
                     way.lines ? " by lines" : "", product);
}
std::string cut_of(const CopiedPartialsWay& /*way*/) { return ""; }

/// "fastest of 12 plans, predicted 10.0 us": what a reason begins with.
std::string reason_of(const PlanOptions& o, std::size_t plans, double predicted_us) {
  return fmt::format("{} of {} plans, predicted {:.1f} us",
                     o == PlanOptions{} ? "fastest" : "fastest of what was asked for,", plans,
                     predicted_us);
}

}  // namespace

bool wanted(const GemmTile& t, const PlanOptions& o) {
  return o.tile_m.value_or(t.worker_tokens()) == t.worker_tokens() &&
         o.tile_n.value_or(t.worker_columns()) == t.worker_columns();
}

Plan empty_plan(const Problem& p, const Machine& machine, const PlanOptions& o, Path path,
                Transport transport) {
  Plan plan;
  plan.op = p.op;
  plan.path = o.path.value_or(path);
  plan.route = o.route.value_or(RouteKind::mesh);
  plan.transport = o.transport.value_or(transport);
  plan.chunk_rows = o.chunk_rows.value_or(1);
  plan.straddle = o.straddle.value_or(false);
  plan.partials = p.dtype;
  plan.workers = 0;
  plan.reason = "no rows: the ranks only agree";
  tell_staging(p, machine.architecture, plan);
  return plan;
}

void sort_by_time(std::vector<KernelWay>& all) {
  std::ranges::stable_sort(all, {}, predicted_us_of);
}

std::string kind_of(Op op, const KernelWay& way) {
  Plan words;
  tell_way(way, words);
  std::string cut = std::visit([](const auto& w) { return cut_of(w); }, way);
  // There is no other.
  if (const std::string one = " in one shot"; row_of(op).scatters() && cut.starts_with(one))
    cut.erase(0, one.size());
  return fmt::format(
      "{}{}{}", words.path == Path::fused ? "" : fmt::format("{} ", name_of(words.path)),
      words.route == RouteKind::ring ? name_of(words.route) : name_of(words.transport), cut);
}

Plan best_of(const Problem& p, const std::vector<KernelWay>& all, const PlanOptions& o,
             const std::string& parts) {
  Plan plan = plan_of(p, all.front());
  plan.reason = reason_of(o, all.size(), predicted_us_of(all.front())) + parts;
  std::vector<std::string> kinds{kind_of(p.op, all.front())};
  for (const KernelWay& way : all) {
    std::string kind = kind_of(p.op, way);
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) continue;
    plan.rejected.push_back(fmt::format("{}: predicted {:.1f} us ({})", kind, predicted_us_of(way),
                                        describe(gemm_of(way))));
    kinds.push_back(std::move(kind));
  }
  return plan;
}

bool named(const std::vector<std::string>& kinds, std::string_view transport) {
  return std::any_of(kinds.begin(), kinds.end(), [&](const std::string& kind) {
    return kind.find(transport) != std::string::npos;
  });
}

}  // namespace tilelace::plan
