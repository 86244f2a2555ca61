// SPDX-License-Identifier: Apache-2.0
// Which plans are worth simulating.
#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "sim/call.h"
#include "sim/grid.h"
#include "sim/kernel_call.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace::sim {
namespace {

/// Beyond so many ranks one tile shape is tried.
constexpr int kMostRanksTried = 16;
/// Tiles of all ranks that a run may have; beyond, several multiprocessors count as one worker.
constexpr double kMostTiles = 1e6;
/// Tiles of all ranks beyond which one tile shape is tried, and gemm_ar in one block: how soon the
/// last shard begins does not matter then.
constexpr double kMostTilesTried = 1e5;

/// A mesh sends most bytes through the shared links of a PCIe tree, a ring each byte once.
bool is_tree(const MachineModel& m, const Call& call) {
  return m.links.topology == Topology::tree && call.local == call.problem.ranks;
}

/// Two levels inside a node: ranks behind one uplink, so that a row crosses the sockets once.
int halves_of(const MachineModel& m, const Call& call) {
  const int share = static_cast<int>(m.links.ranks_per_uplink);
  const bool whole = is_tree(m, call) && share < call.local && call.local % share == 0;
  return whole ? share : call.local;
}

/// How a plan cuts the product, short of its tile.
struct Cut {
  int blocks = 1;
  bool straddle = false;
  int most = 1 << 30;  ///< elements of a tile
  RouteKind route = RouteKind::mesh;
};

/// Of the tiles up to cut.most the largest that is within 1 % of the fastest: fewer reads of L2,
/// fewer flags.
Tile best_tile(const MachineModel& m, const Problem& p, const Cut& cut) {
  if (row_of(p.op).sums && m.method.fused_reduce_cols > 0) {
    return {static_cast<int>(m.method.fused_tile_rows),
            static_cast<int>(m.method.fused_reduce_cols)};
  }
  const auto fits = [&](const Tile& t) {
    return t.rows * t.cols <= cut.most && t.rows >= m.method.fused_tile_rows;
  };
  const auto time = [&](const Tile& t) {
    const double tiles = bands_of(p, cut.blocks, t.rows, cut.straddle) *
                         static_cast<double>(ceil_div(p.total_n(), t.cols));
    return gemm_time(m.compute, product_of(p), t, tiles).clock_us();
  };
  double least = HUGE_VAL;
  for (const Tile& t : tile_shapes()) {
    if (fits(t)) least = std::min(least, time(t));
  }
  Tile best;
  int most = 0;
  for (const Tile& t : tile_shapes()) {
    if (!fits(t) || time(t) > 1.01 * least || t.rows * t.cols <= most) continue;
    best = t;
    most = t.rows * t.cols;
  }
  return best;
}

/// Multiprocessors that one worker stands for.
int group_of(const MachineModel& m, const Problem& p, const Plan& plan, const Tile& t) {
  const double all = tiles_of(p, plan, t.cols) * p.ranks;
  const int widest = static_cast<int>(
      std::min<std::int64_t>(std::max<std::int64_t>(1, p.total_n() / t.cols),
                             static_cast<std::int64_t>(m.compute.multiprocessors)));
  return std::clamp(static_cast<int>(std::ceil(all / kMostTiles)), 1, widest);
}

Plan base_plan(const MachineModel& m, const Call& call, const Choices& choices, const Cut& cut) {
  const Problem& p = call.problem;
  Plan plan;
  plan.op = p.op;
  const bool nodes = call.local < p.ranks;
  plan.route = choices.route.value_or(nodes ? RouteKind::two_level : cut.route);
  if (plan.route == RouteKind::two_level)
    plan.local_ranks = nodes ? call.local : halves_of(m, call);
  plan.blocks = cut.blocks;
  plan.straddle = cut.straddle;
  const Tile tile = choices.tile.value_or(best_tile(m, p, cut));
  plan.tile_m = tile.rows;
  const int all = static_cast<int>(m.compute.multiprocessors);
  plan.workers = std::max(1, all / group_of(m, p, plan, tile));
  // What fused_tiles divides by, so that a tile stays as wide as it is.
  plan.tile_n = tile.cols * std::max(1, all / plan.workers);
  plan.partials = p.dtype;
  return plan;
}

std::string illegal(const Call& call, const Plan& plan) {
  const bool mesh = plan.route == RouteKind::mesh;
  if (row_of(plan.transport).by_workers() && !mesh)
    return "transport store has no relays: it needs route mesh and one node";
  if (row_of(plan.transport).pulls && row_of(plan.op).sums && !mesh) {
    return "pulled partials have no relays: they need route mesh and one node";
  }
  if (plan.straddle && (!mesh || row_of(plan.op).shares))
    return "straddle needs route mesh and is not for gemm_ar";
  if (mesh && call.local < call.problem.ranks)
    return "route mesh is for one node: use two_level or ring";
  return {};
}

/// One plan a transport and a number of chunks, those that are legal.
void add_plans(const MachineModel& m, const Call& call, const Choices& choices, Plan plan,
               std::vector<Plan>& all) {
  const bool whole = m.method.fused_whole_shards > 0 && row_of(call.problem.op).gathers;
  for (const Transport transport :
       {transport_that(Carrier::engine), transport_that(Carrier::worker),
        transport_that(Carrier::engine, true)}) {
    if (!choices.transport && (row_of(transport).pulls || (whole && !row_of(transport).pushes()))) {
      continue;
    }
    plan.transport = choices.transport.value_or(transport);
    if (!illegal(call, plan).empty()) continue;
    // Workers send less at a time: each has a small share of the wire.
    const bool store = row_of(plan.transport).by_workers();
    for (const int chunks : {1, 2, 4, 8, 16, 64}) {
      if (chunks > (store ? 64 : whole ? 1 : 8)) continue;
      const std::int64_t rows = ceil_div(ceil_div(shard_rows(call.problem), plan.blocks), chunks);
      const std::int64_t grain = store ? 8 : whole ? 1 : 64;
      plan.chunk_rows = choices.chunk_rows.value_or(ceil_div(rows, grain) * grain);
      if (std::find(all.begin(), all.end(), plan) == all.end()) all.push_back(plan);
    }
  }
}

}  // namespace

std::vector<Plan> fused_plans(const MachineModel& m, const Call& call, const Choices& choices) {
  const Problem& p = call.problem;
  std::vector<Plan> all;
  if (has_kernels(m, call)) all = kernel_plans(m, call, choices);
  if (!all.empty()) return all;
  const bool ar = row_of(p.op).shares;
  const Plan first = base_plan(m, call, choices, {});
  const bool large =
      p.ranks > kMostRanksTried || tiles_of(p, first, first.tile_n) * p.ranks > kMostTilesTried;
  // Large tiles make the product fast, small ones let more of it begin before the last shard.
  for (const int most : {1 << 30, 128 * 128, 64 * 128}) {
    if (most < 1 << 30 && (choices.tile || large)) continue;
    for (const int blocks : {1, 2, 4}) {
      if (blocks != 1 && (!ar || choices.blocks || large)) continue;
      const int cut = ar ? choices.blocks.value_or(blocks) : 1;
      add_plans(m, call, choices, base_plan(m, call, choices, {cut, false, most}), all);
      if (choices.route || !is_tree(m, call)) continue;
      for (const RouteKind route : {RouteKind::ring, RouteKind::two_level}) {
        add_plans(m, call, choices, base_plan(m, call, choices, {cut, false, most, route}), all);
      }
    }
    if (row_of(p.op).sums && m.method.fused_pads > 0) continue;
    const Plan straddling = base_plan(m, call, choices, {1, true, most});
    if (shard_rows(p) % straddling.tile_m != 0) add_plans(m, call, choices, straddling, all);
  }
  Plan asked = base_plan(m, call, choices, {});
  asked.transport = choices.transport.value_or(transport_that(Carrier::engine));
  require(!all.empty(), "{}: plan {} {} is not possible: {}", name_of(p.op), name_of(asked.route),
          name_of(asked.transport), illegal(call, asked));
  return all;
}

std::vector<Plan> medium_plans(const MachineModel& m, const Call& call, const Choices& choices) {
  const Problem& p = call.problem;
  std::vector<Plan> all;
  for (const RouteKind route : {RouteKind::mesh, RouteKind::ring}) {
    const bool direct = m.method.medium_direct > 0 && row_of(p.op).sums;
    if (route == RouteKind::ring && (direct || choices.route || !is_tree(m, call))) continue;
    Choices of_route;
    of_route.route = choices.route;
    Plan plan = base_plan(m, call, of_route, {1, false, 1 << 30, route});
    plan.path = Path::medium;
    plan.transport = transport_that(Carrier::engine);
    plan.tile_m = static_cast<int>(shard_rows(p));
    plan.tile_n = static_cast<int>(p.total_n());
    plan.chunk_rows = shard_rows(p);
    plan.workers = 1;
    all.push_back(plan);
  }
  return all;
}

}  // namespace tilelace::sim
