// SPDX-License-Identifier: Apache-2.0
#include "plan/gpu/sum_planner.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/gpu/way_choice.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace::plan {
namespace {

bool straddles(const PlanOptions& o) { return o.straddle.value_or(false); }

void add_unfused(const Problem& p, const GemmMachine& machine, const PlanOptions& o,
                 std::vector<KernelWay>& all) {
  for (UnfusedSumWay& c : gemm_reduce_candidates(p, machine)) {
    if (!wanted(c.gemm.tile, o) || o.transport.value_or(c.transport) != c.transport) continue;
    if (row_of(c.transport).pushes() && o.chunk_rows) continue;
    c.chunk_rows = o.chunk_rows.value_or(c.chunk_rows);
    all.emplace_back(c);
  }
}

/// What the prediction is made of.
std::string parts_of(const KernelWay& way, const Problem& p, const Machine& machine) {
  const double gemm_us = gemm_of(way).predicted_us;
  if (const auto* const sum = std::get_if<UnfusedSumWay>(&way))
    return fmt::format(" (GEMM {:.1f}, sum {:.1f}, one after the other)", gemm_us,
                       reduce_us(p, *sum, hardware_of(machine)));
  const auto* const kept = std::get_if<KeptPartialsWay>(&way);
  const std::string_view where =
      !row_of(p.op).shares ? ""
      : kept != nullptr && kept->shots == 1
          ? "; two shots straight into out where that is symmetric memory on all ranks, else one"
          : "; results straight into out where that is symmetric memory on all ranks, else by "
            "staging and a copy";
  return fmt::format(" (GEMM {:.1f}){}", gemm_us, where);
}

}  // namespace

void require_sum_options(const Problem& p, const PlanOptions& o) {
  const auto op = name_of(p.op);
  const bool scatters = row_of(p.op).scatters();
  require(!row_of(o.transport).needs_nccl(),
          "{}: transport on GPUs: got nccl, expected push, pull or store", op);
  require(!straddles(o) || scatters, "{}: straddle on GPUs: got 1, expected 0", op);
  require(o.partials.value_or(p.dtype) == p.dtype,
          "{}: partials on GPUs: got {}, expected the operands' type, {}", op,
          name_of(o.partials.value_or(p.dtype)), name_of(p.dtype));
}

bool may_fuse(const PlanOptions& o, bool transport_fits) {
  return o.path.value_or(Path::fused) == Path::fused && !o.chunk_rows && transport_fits;
}

Plan make_sum_plan(const Problem& p, const Machine& machine, const PlanOptions& o,
                   std::vector<KernelWay> all, std::string_view expected) {
  if (o.path.value_or(Path::unfused) == Path::unfused && !straddles(o))
    add_unfused(p, gemm_machine(machine), o, all);
  require(!all.empty(),
          "{}: no plan on GPUs has path {}, transport {}, tile {}x{}, chunk_rows {} (0: any), "
          "straddle {}: use {}, and a compiled tile (docs/plans.md)",
          name_of(p.op), o.path ? name_of(*o.path) : "any",
          o.transport ? name_of(*o.transport) : "any", o.tile_m.value_or(0), o.tile_n.value_or(0),
          o.chunk_rows.value_or(0), straddles(o) ? 1 : 0, expected);
  sort_by_time(all);
  return best_of(p, all, o, parts_of(all.front(), p, machine));
}

Staging sum_staging(const Problem& p, SlotNeeds needs, std::int64_t in_tiles, std::int64_t behind,
                    std::string_view and_what, std::string_view end) {
  needs.bytes = static_cast<std::size_t>(std::max(in_tiles, behind));
  needs.lines = static_cast<std::size_t>(gemm_reduce_line_bytes(p));
  return {needs,
          fmt::format("flags 4*{} + max(partials in whole tiles{} {}, behind the product "
                      "{}: m {} partials of row {}, of few rows the peers' too{}) + lines {}",
                      needs.flags + needs.counts, and_what, in_tiles, behind, p.m, row_bytes(p),
                      end, needs.lines)};
}

}  // namespace tilelace::plan
