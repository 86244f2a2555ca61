// SPDX-License-Identifier: Apache-2.0
// Plans of gemm_rs on GPU ranks.
#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"
#include "plan/gpu/planners.h"
#include "plan/gpu/sum_planner.h"
#include "plan/gpu/way_choice.h"
#include "tilelace/transport_table.h"

namespace tilelace::plan {
namespace {

using schedule::Index;

/// What goes with path medium.
void require_copied_options(const PlanOptions& o) {
  require(!o.transport || row_of(o.transport).pushes(),
          "gemm_rs: transport on GPUs with path medium: got {}, expected push",
          row_of(o.transport).name);
  require(!o.chunk_rows,
          "gemm_rs: chunk_rows on GPUs with path medium: got {}, expected none: shards are copied "
          "whole",
          o.chunk_rows.value_or(0));
  require(
      !o.straddle.value_or(false),
      "gemm_rs: straddle on GPUs with path medium: got 1, expected 0: only fused plans straddle");
}

Plan make_copied_plan(const Problem& p, const Machine& machine, const PlanOptions& o) {
  require_copied_options(o);
  if (p.m == 0) return empty_plan(p, machine, o, Path::medium, transport_that(Carrier::engine));
  std::vector<KernelWay> all;
  for (const CopiedPartialsWay& c : copied_partials_candidates(p, gemm_machine(machine)))
    if (wanted(c.gemm.tile, o)) all.emplace_back(c);
  require(!all.empty(),
          "{}: tile on GPUs: got {}x{} (0: any), expected a compiled one (docs/plans.md)",
          name_of(p.op), o.tile_m.value_or(0), o.tile_n.value_or(0));
  return best_of(p, all, o,
                 fmt::format(" (GEMM {:.1f} per shard, with link rates measured without a GEMM)",
                             gemm_of(all.front()).predicted_us));
}

Plan make_gemm_rs(const Problem& p, const Machine& machine, const PlanOptions& o) {
  require(!row_of(o.transport).needs_multicast(),
          "gemm_rs: transport on GPUs: got multimem, which is for gemm_ar, expected push, pull or "
          "store");
  require_sum_options(p, o);
  if (copies_partials(p.op, o.path)) return make_copied_plan(p, machine, o);
  if (p.m == 0)
    return empty_plan(p, machine, o, Path::unfused, transport_that(Carrier::engine, true));
  const bool fuses = may_fuse(o, !o.transport || row_of(o.transport).by_workers());
  std::vector<KernelWay> fused;
  if (fuses)
    for (const GemmRsWay& c : gemm_rs_candidates(p, gemm_machine(machine)))
      if (wanted(c.gemm.tile, o) && o.straddle.value_or(c.pairs) == c.pairs) fused.emplace_back(c);
  // Straddling is decision 0018's pairs.
  return make_sum_plan(
      p, machine, o, std::move(fused),
      o.straddle.value_or(false)
          ? "fused with store, no chunk_rows, partials of the operands' type, an even "
            "number of ranks, shards of an odd number of tiles of 128 rows (the last tile need not "
            "be full), tiles that all fit the device at once"
          : "fused with store (up to about 2^31 results, fewer with uneven shards) and without "
            "chunk_rows, or unfused with push (few rows, without chunk_rows) or pull");
}

std::vector<KernelWay> every_gemm_rs(const Problem& p, const Machine& m,
                                     const std::vector<std::string>& /*kinds*/) {
  const GemmMachine machine = gemm_machine(m);
  std::vector<KernelWay> all;
  const auto add = [&](const auto& ways) { all.insert(all.end(), ways.begin(), ways.end()); };
  add(gemm_reduce_candidates(p, machine));
  add(gemm_rs_candidates(p, machine));
  add(copied_partials_candidates(p, machine));
  return all;
}

Staging staging_of_gemm_rs(const Problem& p, int architecture, bool copied) {
  const Index behind = std::max(gemm_reduce_staging_bytes(p), copied ? copied_staging_bytes(p) : 0);
  const SlotNeeds needs{.flags = static_cast<std::size_t>(kMaxPartialFlags)};
  return sum_staging(p, needs, gemm_rs_staging_bytes(p, architecture), behind, "",
                     copied ? ", and what comes in" : "");
}

}  // namespace

const Planner kGemmRsPlanner{make_gemm_rs, every_gemm_rs, staging_of_gemm_rs};

}  // namespace tilelace::plan
