// SPDX-License-Identifier: Apache-2.0
#include "plan/ways/handed_partials_way.h"

#include <algorithm>

#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/base/schedules.h"
#include "plan/gemm/architecture_plans.h"
#include "tilelace/transport_table.h"

namespace tilelace::plan {
namespace {

using schedule::ceil_div;
using schedule::Index;

constexpr Index kHandRounds = 4;  ///< chunks of a CTA where there is work enough

void require_hand(const Problem& p) {
  require(p.op == Op::gemm_rs, "gemm_rs: op: got {}, expected gemm_rs", name_of(p.op));
  check_problem(p);
  require(p.ranks <= schedule::kMaxGpuRanks, "gemm_rs: ranks: got {}, expected at most {}", p.ranks,
          schedule::kMaxGpuRanks);
}

Index max_rows(const Problem& p) {
  const auto borders = borders_of(p);
  return split_of(p, borders).max_rows();
}

double predict(const Problem& p, const GemmPlan& gemm, HandWay way, const Hardware& h) {
  const double moved = sent_us(h, static_cast<double>((p.ranks - 1) * copied_pitch(p)));
  // A shard's copies go under the next ones' products; the last one's do not.
  if (way == HandWay::copied)
    return std::max(p.ranks * gemm.predicted_us, gemm.predicted_us + moved) + h.copy_us +
           h.call_us + 2 * h.flag_us;
  // Each partial is stored at a peer, and read there.
  const int hops = way == HandWay::ring ? p.ranks : 2;
  return gemm.predicted_us + 2 * moved + h.call_us + hops * h.flag_us;
}

}  // namespace

Path path_of(HandWay way) { return way == HandWay::copied ? Path::medium : Path::unfused; }
RouteKind route_of(HandWay way) { return way == HandWay::ring ? RouteKind::ring : RouteKind::mesh; }
Transport transport_of(HandWay way) {
  switch (way) {
    case HandWay::copied: return Transport::push;
    case HandWay::added: return Transport::add;
    case HandWay::ring: break;
  }
  return Transport::store;
}
std::string_view name_of(HandWay way) {
  switch (way) {
    case HandWay::copied: return "copied";
    case HandWay::added: return "added";
    case HandWay::ring: break;
  }
  return "ring";
}

/// The option that asks for a method.
std::string_view deciding_option(HandWay way) {
  if (way == HandWay::copied) return "path medium";
  return way == HandWay::ring ? "route ring" : "transport add";
}

std::optional<HandWay> asked_way(const Problem& p, const PlanOptions& o) {
  std::optional<HandWay> way;
  if (row_of(o.transport).by_memory()) way = HandWay::added;
  if (o.route == RouteKind::ring) way = HandWay::ring;
  if (o.path == Path::medium) way = HandWay::copied;
  if (!way) return way;
  require(p.op == Op::gemm_rs, "{}: plan on GPUs: {} is for gemm_rs only", name_of(p.op),
          deciding_option(*way));
  const Path path = o.path.value_or(path_of(*way));
  const RouteKind route = o.route.value_or(route_of(*way));
  const Transport transport = o.transport.value_or(transport_of(*way));
  require(path == path_of(*way) && route == route_of(*way) && transport == transport_of(*way),
          "gemm_rs: plan on GPUs: got {} {} {}, expected {} {} {}: {} has no other plan",
          name_of(path), name_of(route), name_of(transport), name_of(path_of(*way)),
          name_of(route_of(*way)), name_of(transport_of(*way)), deciding_option(*way));
  require(!o.chunk_rows || *way != HandWay::copied,
          "gemm_rs: chunk_rows on GPUs with path medium: got {}, expected none: shards are copied "
          "whole",
          o.chunk_rows.value_or(0));
  return way;
}

std::optional<HandWay> way_of(Op op, Path path, RouteKind route, Transport transport) {
  if (op != Op::gemm_rs) return std::nullopt;
  for (const HandWay way : {HandWay::copied, HandWay::added, HandWay::ring})
    if (path == path_of(way) && route == route_of(way) && transport == transport_of(way))
      return way;
  return std::nullopt;
}

int tiles_of(const HandedPartialsWay& plan, const Problem& p) {
  const Index rows = plan.way == HandWay::copied ? max_rows(p) : p.m;
  return work_of(plan.gemm, {rows, p.n.front(), p.k, p.dtype}).order.tiles();
}

std::vector<HandedPartialsWay> gemm_hand_candidates(const Problem& p, HandWay way,
                                                    const GemmMachine& machine) {
  require_hand(p);
  require(p.m > 0, "gemm_rs: m: got 0, expected at least 1 row to plan for");
  const bool copied = way == HandWay::copied;
  const Index rows = copied ? max_rows(p) : p.m;
  const Index chunk = ceil_div(max_rows(p), kHandRounds * machine.multiprocessors);
  std::vector<HandedPartialsWay> plans;
  for (const GemmPlan& gemm : gemm_candidates({rows, p.n.front(), p.k, p.dtype}, machine)) {
    // Shards may have fewer rows than the plan, and shared k-steps are dealt to all workers.
    if (copied && gemm.split_tiles != 0) continue;
    plans.push_back({gemm, way, chunk, predict(p, gemm, way, hardware_of(machine))});
  }
  std::ranges::stable_sort(plans, {}, &HandedPartialsWay::predicted_us);
  return plans;
}

schedule::ReduceRows hand_rows_schedule(const Problem& p, const HandedPartialsWay& plan, int rank) {
  const auto borders = borders_of(p);
  const GemmTile& t = plan.gemm.tile;
  const int ctas = std::max(1, plan.gemm.workers * t.cluster() / t.per_sm);
  return schedule::make_reduce_rows(
      split_of(p, borders), rank, schedule::SumForm::own_rows, row_bytes(p) / 16,
      schedule::chunk_of_rows(plan.chunk_rows, row_bytes(p) / 16), ctas);
}

int roundings_of(HandWay way, int ranks) {
  switch (way) {
    case HandWay::added: return ranks;  // itself, and with every one that comes
    case HandWay::ring: return std::max(1, ranks - 1);
    case HandWay::copied: break;
  }
  return 1;
}

std::int64_t copied_pitch(const Problem& p) { return max_rows(p) * row_bytes(p); }

std::int64_t gemm_hand_staging_bytes(const Problem& p) {
  require_hand(p);
  const Index all = p.m * row_bytes(p);
  return all + std::max(all, (p.ranks - 1) * copied_pitch(p));
}

}  // namespace tilelace::plan
