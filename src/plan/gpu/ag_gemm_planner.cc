// SPDX-License-Identifier: Apache-2.0
// Plans of ag_gemm on GPU ranks.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/gpu/planners.h"
#include "plan/gpu/way_choice.h"
#include "plan/ways/gather_exchange.h"
#include "tilelace/transport_table.h"

namespace tilelace::plan {
namespace {

using schedule::Index;

/// Transport and path go together on some ways only.
void require_way(const PlanOptions& o) {
  if (!o.transport) return;
  const auto transport = name_of(*o.transport);
  require(!row_of(o.transport).needs_multicast(),
          "ag_gemm: transport on GPUs: got {}, expected push, pull, store or nccl", transport);
  require(o.route != RouteKind::ring || row_of(o.transport).pushes(),
          "ag_gemm: transport on GPUs over the ring: got {}, expected push", transport);
  require(o.path != Path::medium || row_of(o.transport).pushes(),
          "ag_gemm: transport on GPUs with path medium: got {}, expected push", transport);
}

bool wanted(const AgGemmWay& c, const PlanOptions& o) {
  return o.transport.value_or(c.transport) == c.transport && o.route.value_or(c.route) == c.route &&
         o.straddle.value_or(c.whole) == c.whole && plan::wanted(c.gemm.tile, o);
}

/// Whether there is also a plan with these copies first and the product behind them. Not where own
/// tiles share k-steps until rows are there, nor a second one where shards join the own one.
bool has_unfused(const AgGemmWay& c) {
  return c.path == Path::fused && c.joins.empty() && !c.shares_by_shard() &&
         !row_of(c.transport).by_workers();
}

/// One after the other, made of the same parts: the rows travel in one piece.
AgGemmWay unfused_of(const AgGemmWay& fused, const Problem& p, const GemmMachine& machine) {
  const Hardware& h = hardware_of(machine);
  AgGemmWay plan = fused;
  plan.path = Path::unfused;
  plan.predicted_us = gather_us(p, plan.transport, plan.route, h) + products_us(p, plan, machine) +
                      h.call_us + h.copy_us;
  return plan;
}

/// In what an unfused plan has coarser chunks than fused ones: rows then travel in one piece.
std::tuple<Transport, RouteKind, bool> way_of(const AgGemmWay& c) {
  return {c.transport, c.route, c.whole};
}

std::vector<KernelWay> candidates_of(const Problem& p, const Machine& machine,
                                     const PlanOptions& o) {
  std::vector<KernelWay> all;
  std::map<std::tuple<Transport, RouteKind, bool>, Index> coarsest;
  auto overlapped = row_of(o.transport).needs_nccl()
                        ? ag_gemm_nccl_candidates(p, gemm_machine(machine))
                        : ag_gemm_candidates(p, gemm_machine(machine));
  // On a share calls with relays cannot be captured (docs/decisions/0012): only where they are
  // asked for.
  const bool pulls = row_of(o.transport).pulls;
  const bool relays = pulls || o.route == RouteKind::ring || !machine.shared_device;
  const auto taken = [&](const AgGemmWay& c) {
    if (is_exchanged(c)) return o.path == Path::unfused;
    return pulls || !row_of(c.transport).pulls;
  };
  std::erase_if(overlapped,
                [&](const AgGemmWay& c) { return !taken(c) || (c.relays() && !relays); });
  for (const AgGemmWay& c : overlapped) {
    Index& chunk = coarsest[way_of(c)];
    chunk = std::max(chunk, c.chunk_rows);
  }
  for (const AgGemmWay& c : overlapped) {
    if (!wanted(c, o)) continue;
    if (is_exchanged(c) && o.chunk_rows.value_or(c.chunk_rows) != c.chunk_rows) continue;
    if (o.path.value_or(c.path) == c.path) all.push_back(c);
    if (o.path.value_or(Path::unfused) == Path::unfused && has_unfused(c) &&
        c.chunk_rows == coarsest[way_of(c)])
      all.push_back(unfused_of(c, p, gemm_machine(machine)));
  }
  require(
      !all.empty(),
      "{}: no plan on GPUs has transport {}, straddle {}, tile {}x{} (0: any): use push, pull "
      "or nccl with straddle 0; or store with path unfused, straddle 1 and no chunk_rows, or with "
      "path fused and up to 1024 rows, or up to 2048 with straddle 0; and a compiled tile "
      "(docs/plans.md)",
      name_of(p.op), o.transport ? name_of(*o.transport) : "any",
      o.straddle ? (*o.straddle ? "1" : "0") : "any", o.tile_m.value_or(0), o.tile_n.value_or(0));
  sort_by_time(all);
  if (o.chunk_rows)
    for (KernelWay& way : all) std::get<AgGemmWay>(way).chunk_rows = *o.chunk_rows;
  return all;
}

/// What the prediction is made of.
std::string parts_of(const AgGemmWay& c, const Problem& p, const GemmMachine& machine) {
  const Hardware& h = hardware_of(machine);
  const bool medium = c.path == Path::medium;
  const double gather =
      is_exchanged(c) ? gathering_us(p, c.lines, machine) : gather_us(p, c.transport, c.route, h);
  std::string text = fmt::format(" (GEMM {:.1f}{}, gather {:.1f}", products_us(p, c, machine),
                                 medium ? " a shard" : "", gather);
  if (c.path == Path::unfused) text += ", one after the other";
  if (p.outputs() > 1)
    text += fmt::format(", {} weights {}", p.n.size(),
                        is_merged(p, c.gemm.tile) ? "in one" : "in turn");
  if (p.activation == Activation::swiglu) text += ", gate and up in one";
  return text + ")";
}

Plan make_ag_gemm(const Problem& p, const Machine& machine, const PlanOptions& options) {
  require_way(options);
  if (p.m == 0)
    return empty_plan(p, machine, options, Path::fused, transport_that(Carrier::engine));
  const std::vector<KernelWay> all = candidates_of(p, machine, options);
  return best_of(p, all, options,
                 parts_of(std::get<AgGemmWay>(all.front()), p, gemm_machine(machine)));
}

std::vector<KernelWay> every_ag_gemm(const Problem& p, const Machine& machine,
                                     const std::vector<std::string>& kinds) {
  std::vector<KernelWay> all;
  const auto add = [&](const std::vector<AgGemmWay>& ways) {
    for (const AgGemmWay& c : ways) {
      all.emplace_back(c);
      if (has_unfused(c)) all.emplace_back(unfused_of(c, p, gemm_machine(machine)));
    }
  };
  add(ag_gemm_candidates(p, gemm_machine(machine)));
  if (named(kinds, name_of(transport_that(Carrier::library))))
    add(ag_gemm_nccl_candidates(p, gemm_machine(machine)));
  return all;
}

Staging staging_of_ag_gemm(const Problem& p, int /*architecture*/, bool /*copied*/) {
  const Index row = input_row_bytes(p);
  const SlotNeeds needs{static_cast<std::size_t>(2 * p.ranks * kMaxChunks),
                        static_cast<std::size_t>(p.m * row), 0,
                        static_cast<std::size_t>(gathering_line_bytes(p))};
  return {needs, fmt::format("flags 4*{} + gathered m {} * row {} + lines {}", needs.flags, p.m,
                             row, needs.lines)};
}

}  // namespace

const Planner kAgGemmPlanner{make_ag_gemm, every_ag_gemm, staging_of_ag_gemm};

}  // namespace tilelace::plan
