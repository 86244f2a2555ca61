// SPDX-License-Identifier: Apache-2.0
// Plans of gemm_rs and gemm_ar on GPU ranks.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/check.h"
#include "plan/cuda.h"
#include "plan/cuda_parts.h"
#include "plan/schedules.h"

namespace tilelace::plan {
namespace {

using schedule::Index;

/// Measured on H200s (benchmarks/nvidia-h200-tp4, -tp2): with fewer rows the fused kernel, whose
/// tiles lie within a shard, fills too few multiprocessors, or has too little to hide.
Index least_fused_rows(const Problem& p) {
  if (p.ranks > 2) return 512;
  return p.op == Op::gemm_ar ? 1024 : 256;
}

/// The same where owners have columns: tiles are as full as those of the product alone. Between two
/// ranks one shot moves as little as two, and results in symmetric memory make the difference.
Index least_fused_rows_by_columns(const Problem& p) {
  if (p.op != Op::gemm_ar) return least_fused_rows(p);
  return p.ranks > 2 ? 128 : 256;
}

/// Whether workers' tiles of gemm_rs that lie across two shards each are asked for (decision 0018).
bool pairs(const PlanOptions& o) { return o.straddle.value_or(false); }

void require_reduce_options(const Problem& p, const PlanOptions& o) {
  const auto op = name_of(p.op);
  require(o.transport != Transport::nccl,
          "{}: transport on GPUs, got nccl, expected push, pull or store{}", op,
          p.op == Op::gemm_rs ? ", or add" : "");
  require(!pairs(o) || p.op == Op::gemm_rs, "{}: straddle on GPUs, got 1, expected 0", op);
  require(o.partials.value_or(p.dtype) == p.dtype,
          "{}: partials on GPUs, got {}, expected the operands' type, {}", op,
          name_of(o.partials.value_or(p.dtype)), name_of(p.dtype));
}

bool too_few_rows(const Problem& p, const PlanOptions& o) {
  return p.m < least_fused_rows_by_columns(p) && o.path != Path::fused && !pairs(o);
}
bool only_columns(const Problem& p, const PlanOptions& o) {
  return p.m < least_fused_rows(p) && o.path != Path::fused;
}

bool may_fuse(const Problem& p, const PlanOptions& o) {
  const Transport transport = o.transport.value_or(Transport::store);
  return o.path.value_or(Path::fused) == Path::fused && !o.chunk_rows &&
         (transport == Transport::store || (p.op == Op::gemm_ar && transport == Transport::pull));
}

/// gemm_ar in two rounds was timed between two ranks; among four more is to be hidden, among more
/// than that some 40 % of the partials come in the second round.
bool may_take_rounds(const Problem& p, const GemmPlan& gemm) {
  return gemm.rounds == 1 || p.ranks <= 4;
}

/// Partials are kept, and pulled tile by tile: between two ranks from here on (decision 0017);
/// among more, where that was never timed, when asked for.
constexpr Index kLeastKeptRows = 2048;
bool may_keep(const Problem& p, const PlanOptions& o) {
  if (p.op != Op::gemm_ar) return false;
  if (o.transport) return o.transport == Transport::pull && !only_columns(p, o);
  return p.ranks == 2 && p.m >= kLeastKeptRows;
}

const char* why_not_kept(const Problem& p) {
  return p.ranks > 2 ? "fused pull: never timed, taken when asked for"
                     : "fused pull: not faster, taken when asked for";
}

/// In one shot between two ranks, else in two.
void add_kept(const Problem& p, const GemmMachine& machine, const PlanOptions& o,
              std::vector<KernelWay>& all) {
  if (!may_keep(p, o)) return;
  for (const GemmSumsPlan& c : gemm_sums_candidates(p, machine)) {
    if (!wanted(c.gemm.tile, o) || c.shots != (p.ranks <= 2 ? 1 : 2)) continue;
    all.push_back(c);
  }
}

void add_fused(const Problem& p, const GemmMachine& machine, const PlanOptions& o,
               std::vector<KernelWay>& all) {
  if (p.op == Op::gemm_rs) {
    for (const GemmRsPlan& c : gemm_rs_candidates(p, machine))
      if (wanted(c.gemm.tile, o) && o.straddle.value_or(c.pairs) == c.pairs) all.push_back(c);
    return;
  }
  if (o.transport.value_or(Transport::store) == Transport::store)
    // Where out is symmetric memory the call takes the direct way of the same plan.
    for (const GemmArPlan& c : gemm_ar_candidates(p, machine))
      if (wanted(c.gemm.tile, o) && may_take_rounds(p, c.gemm) &&
          (c.by_columns || !only_columns(p, o)))
        all.push_back(c);
  add_kept(p, machine, o, all);
}

void add_unfused(const Problem& p, const GemmMachine& machine, const PlanOptions& o,
                 std::vector<KernelWay>& all) {
  for (GemmReducePlan& c : gemm_reduce_candidates(p, machine)) {
    if (!wanted(c.gemm.tile, o) || o.transport.value_or(c.transport) != c.transport) continue;
    if (c.transport == Transport::push && o.chunk_rows) continue;
    c.chunk_rows = o.chunk_rows.value_or(c.chunk_rows);
    all.emplace_back(c);
  }
}

std::vector<KernelWay> reduce_candidates_of(const Problem& p, const Machine& m,
                                            const PlanOptions& o) {
  const GemmMachine machine = gemm_machine(m);
  std::vector<KernelWay> all;
  if (may_fuse(p, o) && !too_few_rows(p, o)) add_fused(p, machine, o, all);
  if (o.path.value_or(Path::unfused) == Path::unfused && !pairs(o)) add_unfused(p, machine, o, all);
  require(
      !all.empty(),
      "{}: plan on GPUs, got options (path {}, transport {}, tile {}x{}, chunk_rows {}, straddle "
      "{}) that no plan meets, expected {}, and a compiled tile",
      name_of(p.op), o.path ? name_of(*o.path) : "any", o.transport ? name_of(*o.transport) : "any",
      o.tile_m.value_or(0), o.tile_n.value_or(0), o.chunk_rows.value_or(0), pairs(o) ? 1 : 0,
      p.op == Op::gemm_ar
          ? "fused with pull or store and without chunk_rows, or unfused with push (few rows, "
            "without chunk_rows), pull or store"
      : pairs(o)
          ? "fused with store, without chunk_rows, partials of the operands' type, an even "
            "number of ranks, shards of an odd number of 128 rows (the last ones need not be "
            "full), whose tiles fit the device at once"
          : "fused with store (up to about 2^31 results, of uneven shards fewer) and without "
            "chunk_rows, or unfused with push (few rows, without chunk_rows) or pull");
  sort_by_time(all);
  return all;
}

constexpr std::string_view kStraightIfReachable =
    "; results straight into out where that is symmetric memory on all ranks, else by staging and "
    "a "
    "copy";

/// What the prediction is made of.
std::string parts_of(const KernelWay& way, const Problem& p) {
  const double gemm_us = gemm_of(way).predicted_us;
  if (const auto* const sum = std::get_if<GemmReducePlan>(&way))
    return fmt::format(" (GEMM {:.1f}, sum {:.1f}, one after the other)", gemm_us,
                       reduce_us(p, *sum));
  const auto* const kept = std::get_if<GemmSumsPlan>(&way);
  return fmt::format(" (GEMM {:.1f}){}", gemm_us,
                     p.op == Op::gemm_rs ? ""
                     : kept != nullptr && kept->shots == 1
                         ? "; two shots straight into out where that is symmetric memory on all "
                           "ranks, else one"
                         : kStraightIfReachable);
}

Plan make_hand_plan(const Problem& p, const Machine& machine, const PlanOptions& o, HandWay way) {
  require(!pairs(o), "{}: straddle on GPUs, got 1 for {} {}, expected a fused call", name_of(p.op),
          name_of(path_of(way)), name_of(transport_of(way)));
  std::vector<KernelWay> all;
  for (GemmHandPlan& c : gemm_hand_candidates(p, way, gemm_machine(machine))) {
    if (!wanted(c.gemm.tile, o)) continue;
    c.chunk_rows = o.chunk_rows.value_or(c.chunk_rows);
    all.emplace_back(c);
  }
  require(!all.empty(), "{}: tile on GPUs, got {}x{}, expected a compiled one", name_of(p.op),
          o.tile_m.value_or(0), o.tile_n.value_or(0));
  return best_of(
      p, all, o,
      fmt::format(" (GEMM {:.1f}{}, by links measured alone){}", gemm_of(all.front()).predicted_us,
                  way == HandWay::copied ? " a shard" : "",
                  way == HandWay::added
                      ? "; sums in the order in which ranks come: not the same bits in "
                        "every run"
                      : ""));
}

}  // namespace

Plan make_cuda_reduce_plan(const Problem& p, const Machine& machine, const PlanOptions& options) {
  if (options.transport == Transport::multimem) return make_cuda_sums_plan(p, machine, options);
  require_reduce_options(p, options);
  const std::optional<HandWay> way = asked_way(p, options);
  if (p.m == 0) {
    PlanOptions told = options;
    if (way) told.route = route_of(*way);
    return empty_plan(p, told, way ? path_of(*way) : Path::unfused,
                      way ? transport_of(*way) : Transport::pull);
  }
  if (way) return make_hand_plan(p, machine, options, *way);
  const std::vector<KernelWay> all = reduce_candidates_of(p, machine, options);
  Plan plan = best_of(p, all, options, parts_of(all.front(), p));
  if (may_fuse(p, options) && too_few_rows(p, options)) {
    const Index least = least_fused_rows_by_columns(p);
    plan.reason += fmt::format("; the fused kernel measured slower below {} rows", least);
    plan.rejected.push_back(fmt::format("fused store: not below {} rows", least));
  }
  if (p.op == Op::gemm_ar && may_fuse(p, options) && !too_few_rows(p, options) &&
      !options.transport && !may_keep(p, options))
    plan.rejected.emplace_back(why_not_kept(p));
  return plan;
}

std::vector<KernelWay> every_reduce_way(const Problem& p, const Machine& machine) {
  const GemmMachine gemm = gemm_machine(machine);
  std::vector<KernelWay> all;
  const auto add = [&](const auto& ways) { all.insert(all.end(), ways.begin(), ways.end()); };
  add(gemm_reduce_candidates(p, gemm));
  if (p.op == Op::gemm_ar) {
    add(gemm_ar_candidates(p, gemm));
    add(gemm_sums_candidates(p, gemm));
    return all;
  }
  add(gemm_rs_candidates(p, gemm));
  for (const HandWay way : {HandWay::copied, HandWay::added, HandWay::ring})
    add(gemm_hand_candidates(p, way, gemm));
  return all;
}

}  // namespace tilelace::plan
