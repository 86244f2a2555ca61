// SPDX-License-Identifier: Apache-2.0
// Plans of gemm_ar on GPU ranks. By the switch only where it is asked for.
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

/// Whether partials may be kept, and pulled tile by tile.
bool may_keep(const PlanOptions& o) { return !o.transport || row_of(o.transport).pulls; }

std::vector<KernelWay> fused_ways(const Problem& p, const GemmMachine& machine,
                                  const PlanOptions& o) {
  std::vector<KernelWay> all;
  if (!o.transport || row_of(o.transport).by_workers())
    // Where out is symmetric memory the call takes the direct way of the same plan.
    for (const GemmArWay& c : gemm_ar_candidates(p, machine))
      if (wanted(c.gemm.tile, o)) all.emplace_back(c);
  if (!may_keep(o)) return all;
  // In one shot between two ranks, else in two.
  for (const KeptPartialsWay& c : gemm_sums_candidates(p, machine))
    if (wanted(c.gemm.tile, o) && c.shots == (p.ranks <= 2 ? 1 : 2)) all.emplace_back(c);
  return all;
}

std::string_view missing(Multicast multicast) {
  switch (multicast) {
    case Multicast::not_asked: return "the communicator was made without the option multicast";
    case Multicast::not_allowed: return "TILELACE_MULTICAST=1 is not in the environment";
    case Multicast::not_supported:
      return "the device's CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED is 0";
    case Multicast::usable: return "nothing is missing";
  }
  return "unknown";
}

void require_switch_options(const Problem& p, const Machine& machine, const PlanOptions& o) {
  const auto op = name_of(p.op);
  require(
      machine.multicast == Multicast::usable,
      "{}: transport multimem needs a communicator with multicast on devices that support it: {}",
      op, missing(machine.multicast));
  require(o.path.value_or(Path::fused) == Path::fused,
          "{}: path with transport multimem: got {}, expected fused", op,
          name_of(o.path.value_or(Path::fused)));
  require(!o.chunk_rows, "{}: chunk_rows with transport multimem: got {}, expected none", op,
          o.chunk_rows.value_or(0));
  require(!o.straddle.value_or(false), "{}: straddle on GPUs: got 1, expected 0", op);
  require(o.partials.value_or(p.dtype) == p.dtype,
          "{}: partials with transport multimem: got {}, expected the operands' type, {}", op,
          name_of(o.partials.value_or(p.dtype)), name_of(p.dtype));
}

Plan make_switch_plan(const Problem& p, const Machine& machine, const PlanOptions& o) {
  require_switch_options(p, machine, o);
  if (p.m == 0) return empty_plan(p, machine, o, Path::fused, Transport::multimem);
  std::vector<KernelWay> all;
  for (const KeptPartialsWay& c : gemm_multimem_candidates(p, gemm_machine(machine)))
    if (wanted(c.gemm.tile, o)) all.emplace_back(c);
  require(!all.empty(),
          "{}: tile with transport multimem: got {}x{} (0: any), expected a compiled one "
          "(docs/plans.md)",
          name_of(p.op), o.tile_m.value_or(0), o.tile_n.value_or(0));
  return best_of(p, all, o,
                 fmt::format(" (GEMM {:.1f}, never timed); sums in the switch's order: the same on "
                             "all ranks, not those of other transports; results straight into out "
                             "where that is symmetric memory on all ranks, else by staging",
                             gemm_of(all.front()).predicted_us));
}

Plan make_gemm_ar(const Problem& p, const Machine& machine, const PlanOptions& o) {
  if (row_of(o.transport).needs_multicast()) return make_switch_plan(p, machine, o);
  require_sum_options(p, o);
  if (p.m == 0) return empty_plan(p, machine, o, Path::unfused, Transport::pull);
  const TransportRow& transport = row_of(o.transport);
  const bool fuses = may_fuse(o, !o.transport || transport.by_workers() || transport.pulls);
  return make_sum_plan(
      p, machine, o, fuses ? fused_ways(p, gemm_machine(machine), o) : std::vector<KernelWay>{},
      "fused with pull or store and without chunk_rows, or unfused with push (few rows, without "
      "chunk_rows), pull or store");
}

std::vector<KernelWay> every_gemm_ar(const Problem& p, const Machine& m,
                                     const std::vector<std::string>& kinds) {
  const GemmMachine machine = gemm_machine(m);
  std::vector<KernelWay> all;
  const auto add = [&](const auto& ways) { all.insert(all.end(), ways.begin(), ways.end()); };
  add(gemm_reduce_candidates(p, machine));
  add(gemm_ar_candidates(p, machine));
  add(gemm_sums_candidates(p, machine));
  if (!named(kinds, name_of(Transport::multimem))) return all;
  PlanOptions asked;
  asked.transport = Transport::multimem;
  all.push_back(make_switch_plan(p, m, asked).kernel->way);
  return all;
}

Staging staging_of_gemm_ar(const Problem& p, int architecture, bool /*copied*/) {
  const SlotNeeds needs{.flags = static_cast<std::size_t>(kGemmArFlags),
                        .counts = static_cast<std::size_t>(gemm_sums_counts(p, architecture))};
  return sum_staging(p, needs, gemm_ar_staging_bytes(p, architecture), gemm_reduce_staging_bytes(p),
                     " and results", "");
}

}  // namespace

const Planner kGemmArPlanner{make_gemm_ar, every_gemm_ar, staging_of_gemm_ar};

}  // namespace tilelace::plan
