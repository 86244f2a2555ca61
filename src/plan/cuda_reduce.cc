// SPDX-License-Identifier: Apache-2.0
// Plans of gemm_rs and gemm_ar on GPU ranks.
#include <fmt/format.h>

#include <algorithm>

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

/// One way of a call; `together` counts where it is fused.
struct ReduceCandidate {
  GemmPlan gemm;
  Path path = Path::unfused;
  Transport transport = Transport::pull;
  Index chunk_rows = 1;
  double predicted_us = 0;
  RouteKind route = RouteKind::mesh;
  bool together = true;
  int lag = 0;
  bool by_columns = false;  ///< a fused gemm_ar whose owners have columns
  int shots = 0;            ///< of pushed sums; of a fused gemm_ar whose ranks keep their partials
  bool pairs = false;       ///< a fused gemm_rs whose shards come in pairs
};

ReduceCandidate candidate_of(const GemmRsPlan& c) {
  ReduceCandidate r{c.gemm, Path::fused, Transport::store, c.gemm.tile.worker_tokens(),
                    c.predicted_us};
  r.together = c.together;
  r.pairs = c.pairs;
  return r;
}
ReduceCandidate candidate_of(const GemmArPlan& c) {
  ReduceCandidate r{c.gemm, Path::fused, Transport::store, c.block_rows, c.predicted_us};
  r.lag = c.lag;
  r.by_columns = c.by_columns;
  return r;
}
ReduceCandidate candidate_of(const GemmSumsPlan& c) {
  ReduceCandidate r{c.gemm, Path::fused, Transport::pull, c.gemm.tile.worker_tokens(),
                    c.predicted_us};
  r.shots = c.shots;
  return r;
}
ReduceCandidate candidate_of(const GemmReducePlan& c) {
  ReduceCandidate r{c.gemm, Path::unfused, c.transport, c.chunk_rows, c.predicted_us};
  if (c.transport == Transport::push) r.shots = c.shots;
  return r;
}
ReduceCandidate candidate_of(const GemmHandPlan& c) {
  return {c.gemm,       path_of(c.way), transport_of(c.way),
          c.chunk_rows, c.predicted_us, route_of(c.way)};
}

/// Whether workers' tiles of gemm_rs that lie across two shards each are asked for (decision 0018).
bool pairs(const PlanOptions& o) { return o.straddle.value_or(false); }

std::string kind_of(const ReduceCandidate& c) {
  if (c.path == Path::fused) return fmt::format("fused {}", name_of(c.transport));
  if (c.transport == Transport::push)
    return c.shots == 2 ? "unfused push, in two shots" : "unfused push";
  return c.transport == Transport::store ? "unfused store, in two shots" : "unfused pull";
}

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
              std::vector<ReduceCandidate>& all) {
  if (!may_keep(p, o)) return;
  for (const GemmSumsPlan& c : gemm_sums_candidates(p, machine)) {
    if (!wanted(c.gemm.tile, o) || c.direct || c.shots != (p.ranks <= 2 ? 1 : 2)) continue;
    all.push_back(candidate_of(c));
  }
}

void add_fused(const Problem& p, const GemmMachine& machine, const PlanOptions& o,
               std::vector<ReduceCandidate>& all) {
  if (p.op == Op::gemm_rs) {
    for (const GemmRsPlan& c : gemm_rs_candidates(p, machine))
      if (wanted(c.gemm.tile, o) && o.straddle.value_or(c.pairs) == c.pairs)
        all.push_back(candidate_of(c));
    return;
  }
  if (o.transport.value_or(Transport::store) == Transport::store)
    // Where out is symmetric memory the call takes the direct way of the same plan.
    for (const GemmArPlan& c : gemm_ar_candidates(p, machine))
      if (wanted(c.gemm.tile, o) && !c.direct && may_take_rounds(p, c.gemm) &&
          (c.by_columns || !only_columns(p, o)))
        all.push_back(candidate_of(c));
  add_kept(p, machine, o, all);
}

void add_unfused(const Problem& p, const GemmMachine& machine, const PlanOptions& o,
                 std::vector<ReduceCandidate>& all) {
  for (const GemmReducePlan& c : gemm_reduce_candidates(p, machine)) {
    if (!wanted(c.gemm.tile, o) || o.transport.value_or(c.transport) != c.transport) continue;
    if (c.transport == Transport::push && o.chunk_rows) continue;
    all.push_back(candidate_of(c));
    all.back().chunk_rows = o.chunk_rows.value_or(c.chunk_rows);
  }
}

std::vector<ReduceCandidate> reduce_candidates_of(const Problem& p, const Machine& m,
                                                  const PlanOptions& o) {
  const GemmMachine machine = gemm_machine(m);
  std::vector<ReduceCandidate> all;
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
  std::stable_sort(all.begin(), all.end(), [](const ReduceCandidate& a, const ReduceCandidate& b) {
    return a.predicted_us < b.predicted_us;
  });
  return all;
}

int tiles_of(const ReduceCandidate& c, const Problem& p) {
  const auto borders = borders_of(p);
  const schedule::RowSplit split = split_of(p, borders);
  const Index made = c.path == Path::medium ? split.max_rows() : p.m;
  const schedule::GemmWork work = work_of(c.gemm, {made, p.n.front(), p.k, p.dtype});
  if (c.path != Path::fused || c.shots > 0) return work.order.tiles();
  if (p.op == Op::gemm_ar) {
    GemmArPlan plan{c.gemm, c.chunk_rows, c.lag};
    plan.by_columns = c.by_columns;
    return gemm_ar_order(p, plan, 0).tiles();
  }
  const Index rows = tile_rows_of(split, c.gemm.tile, c.pairs);
  return static_cast<int>(rows) * over_tokens(work.order, c.gemm.tile).cols;
}

std::string parts_of(const ReduceCandidate& c, const Problem& p) {
  if (c.path == Path::fused)
    return fmt::format(" (GEMM {:.1f}){}", c.gemm.predicted_us,
                       p.op == Op::gemm_rs ? ""
                       : c.shots == 1      ? "; two shots straight into out where that is "
                                             "symmetric memory on all ranks, else one"
                                           : "; results straight into out where that is symmetric "
                                             "memory on all ranks, else by staging and a copy");
  return fmt::format(" (GEMM {:.1f}, sum {:.1f}, one after the other)", c.gemm.predicted_us,
                     reduce_us(p, {c.gemm, c.transport, c.chunk_rows, 0, c.shots}));
}

Plan public_plan(const ReduceCandidate& c, const Problem& p) {
  Plan plan = plan_of(p, c.gemm, tiles_of(c, p));
  plan.path = c.path;
  plan.route = c.route;
  plan.transport = c.transport;
  plan.chunk_rows = c.chunk_rows;
  plan.straddle = c.pairs;
  plan.kernel.apart = c.together ? 1 : p.ranks - 1;
  plan.kernel.lag = c.lag;
  plan.kernel.by_columns = c.by_columns;
  plan.kernel.shots = c.shots;
  return plan;
}

std::string kind_of_hand(const GemmHandPlan& c) { return std::string(name_of(c.way)); }

Plan make_hand_plan(const Problem& p, const Machine& machine, const PlanOptions& o, HandWay way) {
  require(!pairs(o), "{}: straddle on GPUs, got 1 for {} {}, expected a fused call", name_of(p.op),
          name_of(path_of(way)), name_of(transport_of(way)));
  std::vector<GemmHandPlan> all = gemm_hand_candidates(p, way, gemm_machine(machine));
  std::erase_if(all, [&](const GemmHandPlan& c) { return !wanted(c.gemm.tile, o); });
  require(!all.empty(), "{}: tile on GPUs, got {}x{}, expected a compiled one", name_of(p.op),
          o.tile_m.value_or(0), o.tile_n.value_or(0));
  const GemmHandPlan& best = all.front();
  Plan plan = public_plan(candidate_of(best), p);
  plan.chunk_rows = o.chunk_rows.value_or(best.chunk_rows);
  plan.reason = reason_of(o, all.size(), best.predicted_us) +
                fmt::format(" (GEMM {:.1f}{}, by links measured alone){}", best.gemm.predicted_us,
                            way == HandWay::copied ? " a shard" : "",
                            way == HandWay::added
                                ? "; sums in the order in which ranks come: not the same bits in "
                                  "every run"
                                : "");
  plan.rejected = rejected_of(all, kind_of_hand);
  tell_sum_staging(p, plan);
  return plan;
}

}  // namespace

void tell_sum_staging(const Problem& p, Plan& plan) {
  const Index sums = gemm_reduce_staging_bytes(p);
  const bool all = p.op == Op::gemm_ar;
  const Index flags = all ? kGemmArFlags : kMaxPartialFlags;
  // Calls with fewer rows may take the other path.
  const Index fused = all ? gemm_ar_staging_bytes(p) : gemm_rs_staging_bytes(p);
  const Index handed = way_of(plan) ? gemm_hand_staging_bytes(p) : 0;
  const Index counts = all ? gemm_sums_counts(p) : 0;
  plan.staging_bytes = (flags + counts) * 4 + std::max({sums, fused, handed});
  plan.staging_formula = fmt::format(
      "flags 4*{} + max(partials in whole tiles{} {}, behind the product {}: m {} "
      "partials of row {}, of few rows the peers' too{})",
      flags + counts, all ? " and results" : "", fused, std::max(sums, handed), p.m,
      p.n.front() * static_cast<Index>(size_of(p.dtype)), handed > 0 ? ", and what comes in" : "");
}

Plan make_cuda_reduce_plan(const Problem& p, const Machine& machine, const PlanOptions& options) {
  if (options.transport == Transport::multimem) return make_cuda_sums_plan(p, machine, options);
  require_reduce_options(p, options);
  const std::optional<HandWay> way = asked_way(p, options);
  if (p.m == 0) {
    Plan plan = empty_plan(p, options, way ? plan::path_of(*way) : Path::unfused,
                           way ? plan::transport_of(*way) : Transport::pull);
    if (way) plan.route = plan::route_of(*way);
    plan.partials = p.dtype;
    tell_sum_staging(p, plan);
    return plan;
  }
  if (way) return make_hand_plan(p, machine, options, *way);
  const std::vector<ReduceCandidate> all = reduce_candidates_of(p, machine, options);
  const ReduceCandidate& best = all.front();
  Plan plan = public_plan(best, p);
  plan.reason = reason_of(options, all.size(), best.predicted_us) + parts_of(best, p);
  plan.rejected = rejected_of(all, kind_of);
  if (may_fuse(p, options) && too_few_rows(p, options)) {
    const Index least = least_fused_rows_by_columns(p);
    plan.reason += fmt::format("; the fused kernel measured slower below {} rows", least);
    plan.rejected.push_back(fmt::format("fused store: not below {} rows", least));
  }
  if (p.op == Op::gemm_ar && may_fuse(p, options) && !too_few_rows(p, options) &&
      !options.transport && !may_keep(p, options))
    plan.rejected.emplace_back(why_not_kept(p));
  tell_sum_staging(p, plan);
  return plan;
}

std::vector<TimedPlan> every_reduce_plan(const Problem& p, const Machine& machine) {
  const GemmMachine gemm = gemm_machine(machine);
  std::vector<TimedPlan> all;
  const auto add = [&](const auto& candidates) {
    for (const auto& c : candidates) {
      // What is direct is so by where results lie, not by the plan.
      if constexpr (requires { c.direct; })
        if (c.direct) continue;
      all.push_back({public_plan(candidate_of(c), p), c.predicted_us});
      tell_sum_staging(p, all.back().plan);
    }
  };
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

GemmRsPlan gemm_rs_plan_of(const Plan& plan) {
  return {gemm_plan_of(plan), plan.kernel.apart == 1, 0, plan.straddle};
}

GemmArPlan gemm_ar_plan_of(const Plan& plan) {
  GemmArPlan p{gemm_plan_of(plan), plan.chunk_rows, plan.kernel.lag};
  p.by_columns = plan.kernel.by_columns;
  return p;
}

GemmHandPlan gemm_hand_plan_of(const Plan& plan) {
  const std::optional<HandWay> way = way_of(plan);
  require(way.has_value(), "{}: plan, got {} {}, expected one whose partials are handed to owners",
          name_of(plan.op), name_of(plan.path), name_of(plan.transport));
  return {gemm_plan_of(plan), *way, plan.chunk_rows, 0};
}

GemmReducePlan gemm_reduce_plan_of(const Plan& plan) {
  return {gemm_plan_of(plan), plan.transport, plan.chunk_rows, 0, std::max(1, plan.kernel.shots)};
}

}  // namespace tilelace::plan
