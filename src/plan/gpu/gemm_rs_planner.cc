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

Plan make_hand_plan(const Problem& p, const Machine& machine, const PlanOptions& o, HandWay way) {
  require(!o.straddle.value_or(false),
          "{}: straddle on GPUs: got 1 with path {} and transport {}: only fused plans straddle",
          name_of(p.op), name_of(path_of(way)), name_of(transport_of(way)));
  std::vector<KernelWay> all;
  for (HandedPartialsWay& c : gemm_hand_candidates(p, way, gemm_machine(machine))) {
    if (!wanted(c.gemm.tile, o)) continue;
    c.chunk_rows = o.chunk_rows.value_or(c.chunk_rows);
    all.emplace_back(c);
  }
  require(!all.empty(),
          "{}: tile on GPUs: got {}x{} (0: any), expected a compiled one (docs/plans.md)",
          name_of(p.op), o.tile_m.value_or(0), o.tile_n.value_or(0));
  return best_of(
      p, all, o,
      fmt::format(" (GEMM {:.1f}{}, with link rates measured without a GEMM){}",
                  gemm_of(all.front()).predicted_us, way == HandWay::copied ? " per shard" : "",
                  way == HandWay::added
                      ? "; partials are added in order of arrival, so bits may differ between runs"
                      : ""));
}

Plan make_gemm_rs(const Problem& p, const Machine& machine, const PlanOptions& o) {
  require(!row_of(o.transport).needs_multicast(),
          "gemm_rs: transport on GPUs: got multimem, which is for gemm_ar, expected push, pull, "
          "store or add");
  require_sum_options(p, o);
  const std::optional<HandWay> way = asked_way(p, o);
  if (p.m == 0) {
    PlanOptions told = o;
    if (way) told.route = route_of(*way);
    return empty_plan(p, machine, told, way ? path_of(*way) : Path::unfused,
                      way ? transport_of(*way) : transport_that(Carrier::engine, true));
  }
  if (way) return make_hand_plan(p, machine, o, *way);
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
  for (const HandWay way : {HandWay::copied, HandWay::added, HandWay::ring})
    add(gemm_hand_candidates(p, way, machine));
  return all;
}

Staging staging_of_gemm_rs(const Problem& p, int architecture, bool hands) {
  const Index behind =
      std::max(gemm_reduce_staging_bytes(p), hands ? gemm_hand_staging_bytes(p) : 0);
  const SlotNeeds needs{.flags = static_cast<std::size_t>(kMaxPartialFlags)};
  return sum_staging(p, needs, gemm_rs_staging_bytes(p, architecture), behind, "",
                     hands ? ", and what comes in" : "");
}

}  // namespace

const Planner kGemmRsPlanner{make_gemm_rs, every_gemm_rs, staging_of_gemm_rs};

}  // namespace tilelace::plan
