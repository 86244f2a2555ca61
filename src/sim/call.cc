// SPDX-License-Identifier: Apache-2.0
#include "sim/call.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "core/check.h"
#include "plan/schedules.h"

namespace tilelace::sim {
namespace {

constexpr std::int64_t kMostRanks = 1024;
constexpr std::int64_t kMostRows = 1 << 24;
/// Beyond so many ranks one tile shape is tried.
constexpr int kMostRanksTried = 16;
/// Tiles of all ranks that a run may have; beyond, several multiprocessors count as one worker.
constexpr double kMostTiles = 3e6;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

double element_bytes(const Problem& p) { return static_cast<double>(size_of(p.dtype)); }

std::int64_t shard_rows(const Problem& p) {
  return std::max<std::int64_t>(1, ceil_div(p.m, p.ranks));
}

/// Rows of tiles of one rank.
double bands_of(const Problem& p, int blocks, int tile_m, bool straddle) {
  if (straddle) return static_cast<double>(ceil_div(p.m, tile_m));
  const std::int64_t rows = ceil_div(shard_rows(p), blocks);
  return static_cast<double>(ceil_div(rows, tile_m)) * p.ranks * blocks;
}

double tiles_of(const Problem& p, const Plan& plan, int tile_n) {
  return bands_of(p, plan.blocks, plan.tile_m, plan.straddle) *
         static_cast<double>(ceil_div(p.total_n(), tile_n));
}

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
  if (p.op != Op::ag_gemm && m.method.fused_reduce_cols > 0) {
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
  const int group = group_of(m, p, plan, tile);
  plan.tile_n = tile.cols * group;
  plan.workers = std::max(1, static_cast<int>(m.compute.multiprocessors) / group);
  plan.partials = p.dtype;
  return plan;
}

std::string illegal(const Call& call, const Plan& plan) {
  const bool mesh = plan.route == RouteKind::mesh;
  if (plan.transport == Transport::store && !mesh) return "store needs the mesh (nobody relays)";
  if (plan.transport == Transport::pull && plan.op != Op::ag_gemm && !mesh) {
    return "pulling partials needs the mesh (nobody relays)";
  }
  if (plan.straddle && (!mesh || plan.op == Op::gemm_ar)) return "only a mesh may straddle";
  if (mesh && call.local < call.problem.ranks) return "between nodes only two_level or ring routes";
  return {};
}

}  // namespace

void check_call(const MachineModel& m, const Call& call) {
  const Problem& p = call.problem;
  const auto op = name_of(p.op);
  require(p.ranks >= 1 && p.ranks <= kMostRanks, "{}: ranks, got {}, expected 1 to {}", op, p.ranks,
          kMostRanks);
  require(call.local >= 1 && p.ranks % call.local == 0,
          "{}: ranks of a node, got {}, expected a "
          "divisor of {}",
          op, call.local, p.ranks);
  const auto most = static_cast<int>(m.ranks_per_node);
  require(call.local <= most, "{}: --tp, got {}, expected at most the {} ranks of a node of {}", op,
          call.local, most, m.name);
  const int nodes = p.ranks / call.local;
  require(nodes <= static_cast<int>(m.max_nodes), "{}: --nodes, got {}, expected at most {} of {}",
          op, nodes, m.max_nodes, m.name);
  require(p.m >= 0 && p.m <= kMostRows, "{}: m, got {}, expected 0 to {}", op, p.m, kMostRows);
  require(p.total_n() >= 1 && p.total_n() <= kMostRows && p.k >= 1 && p.k <= kMostRows,
          "{}: n {} and k {} of a rank, expected 1 to {}", op, p.total_n(), p.k, kMostRows);
}

Call call_of(Problem problem, int local) {
  problem.n = {problem.total_n()};
  problem.activation = Activation::none;
  return {std::move(problem), local};
}

Product product_of(const Problem& p) { return {p.m, p.total_n(), p.k, element_bytes(p)}; }

namespace {

/// One plan a transport and a number of chunks, those that are legal.
void add_plans(const MachineModel& m, const Call& call, const Choices& choices, Plan plan,
               std::vector<Plan>& all) {
  const bool whole = m.method.fused_whole_shards > 0 && call.problem.op == Op::ag_gemm;
  for (const Transport transport : {Transport::push, Transport::store, Transport::pull}) {
    if (!choices.transport &&
        (transport == Transport::pull || (whole && transport != Transport::push))) {
      continue;
    }
    plan.transport = choices.transport.value_or(transport);
    if (!illegal(call, plan).empty()) continue;
    // Workers send less at a time: each has a small share of the wire.
    const bool store = plan.transport == Transport::store;
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
  const bool ar = p.op == Op::gemm_ar;
  // Large tiles make the product fast, small ones let more of it begin before the last shard.
  for (const int most : {1 << 30, 128 * 128, 64 * 128}) {
    if (most < 1 << 30 && (choices.tile || p.ranks > kMostRanksTried)) continue;
    for (const int blocks : {1, 2, 4}) {
      if (blocks != 1 && (!ar || choices.blocks)) continue;
      const int cut = ar ? choices.blocks.value_or(blocks) : 1;
      add_plans(m, call, choices, base_plan(m, call, choices, {cut, false, most}), all);
      if (choices.route || !is_tree(m, call)) continue;
      for (const RouteKind route : {RouteKind::ring, RouteKind::two_level}) {
        add_plans(m, call, choices, base_plan(m, call, choices, {cut, false, most, route}), all);
      }
    }
    if (p.op != Op::ag_gemm && m.method.fused_pads > 0) continue;
    const Plan straddling = base_plan(m, call, choices, {1, true, most});
    if (shard_rows(p) % straddling.tile_m != 0) add_plans(m, call, choices, straddling, all);
  }
  Plan asked = base_plan(m, call, choices, {});
  asked.transport = choices.transport.value_or(Transport::push);
  require(!all.empty(), "{}: plan: got {} {}, expected a legal one: {}", name_of(p.op),
          name_of(asked.route), name_of(asked.transport), illegal(call, asked));
  return all;
}

std::vector<Plan> medium_plans(const MachineModel& m, const Call& call, const Choices& choices) {
  const Problem& p = call.problem;
  std::vector<Plan> all;
  for (const RouteKind route : {RouteKind::mesh, RouteKind::ring}) {
    const bool direct = m.method.medium_direct > 0 && p.op != Op::ag_gemm;
    if (route == RouteKind::ring && (direct || choices.route || !is_tree(m, call))) continue;
    Choices of_route;
    of_route.route = choices.route;
    Plan plan = base_plan(m, call, of_route, {1, false, 1 << 30, route});
    plan.path = Path::medium;
    plan.transport = Transport::push;
    plan.tile_m = static_cast<int>(shard_rows(p));
    plan.tile_n = static_cast<int>(p.total_n());
    plan.chunk_rows = shard_rows(p);
    plan.workers = 1;
    all.push_back(plan);
  }
  return all;
}

std::vector<std::vector<StepList>> record_call(const Call& call, const Plan& plan) {
  const Problem& p = call.problem;
  const std::vector<plan::Index> even;
  std::vector<std::vector<StepList>> lists;
  for (int r = 0; r < p.ranks; ++r) {
    lists.push_back(p.op == Op::ag_gemm ? record(plan::ag_gemm_schedule(p, plan, r, even))
                                        : record(plan::gemm_reduce_schedule(p, plan, r, even)));
  }
  return lists;
}

namespace {

/// The same device with main loops at this share of their rate; memory is as fast as before.
Compute slowed(Compute c, double efficiency) {
  c.efficiency *= efficiency;
  c.l2_gbps *= efficiency;
  return c;
}

/// A worker's tile: its share of what the whole grid takes, so that a call without any wait takes
/// what the product alone does.
std::function<double(int)> fused_tiles(const MachineModel& m, const Problem& p, const Plan& plan,
                                       double stretch) {
  const int group = std::max(1, static_cast<int>(m.compute.multiprocessors) / plan.workers);
  const Tile tile{plan.tile_m, plan.tile_n / group};
  const Compute device = slowed(m.compute, m.method.fused_efficiency);
  const GemmTime whole = gemm_time(device, product_of(p), tile, tiles_of(p, plan, tile.cols));
  const double waves = std::max(1.0, std::ceil(tiles_of(p, plan, plan.tile_n) / plan.workers));
  const double each = stretch * whole.clock_us() / waves;
  return [each](int) { return each; };
}

std::function<double(int)> medium_tiles(const MachineModel& m, const Problem& p, double stretch) {
  auto known = std::make_shared<std::map<int, double>>();
  const Compute device = slowed(m.compute, m.method.medium_efficiency);
  const double stage = m.method.medium_stage_us;
  return [device, stage, p, stretch, known](int rows) {
    const auto at = known->find(rows);
    if (at != known->end()) return at->second;
    Product part = product_of(p);
    part.m = rows;
    const GemmTime t = gemm_time(device, part);
    return (*known)[rows] = stretch * t.clock_us() + t.fixed_us + stage;
  };
}

}  // namespace

Costs costs_of(const MachineModel& m, const Call& call, const Plan& plan, double stretch) {
  const Problem& p = call.problem;
  const bool medium = plan.path == Path::medium;
  const double wide = static_cast<double>(p.op == Op::ag_gemm ? p.k : p.n[0]);
  Costs c;
  c.tile_us = medium ? medium_tiles(m, p, stretch) : fused_tiles(m, p, plan, stretch);
  c.row_bytes = wide * element_bytes(p);
  c.tile_row_bytes = std::min(static_cast<double>(plan.tile_n), static_cast<double>(p.total_n())) *
                     element_bytes(p);
  c.reduce_gbps = m.compute.memory_gbps / plan.workers;
  c.launch_us = medium ? m.method.medium_call_us : m.compute.fixed_us + m.method.fused_call_us;
  c.copy_launch_us = medium ? m.method.medium_call_us : m.method.fused_call_us;
  c.resident = plan.workers;
  c.end_us = medium || p.op == Op::ag_gemm ? 0 : m.method.fused_reduce_us;
  const int local = plan.route == RouteKind::two_level ? plan.local_ranks : p.ranks;
  c.route = {plan.route, p.ranks, local};
  return c;
}

Outcome simulate(const MachineModel& m, const Call& call, const Plan& plan,
                 const Disturbance& disturbance, bool with_spans) {
  const auto lists = record_call(call, plan);
  Outcome cool = play(m, call.local, costs_of(m, call, plan), lists, disturbance, with_spans);
  const GemmTime gemm = gemm_time(m.compute, product_of(call.problem));
  const double products = cool.compute_us / call.problem.ranks / plan.workers;
  const double rest = std::max(0.0, cool.end_us - products);
  const double stretch =
      products > 0
          ? (under_power_us(cool.end_us - gemm.fixed_us, gemm.power_us) + gemm.fixed_us - rest) /
                products
          : 1;
  if (stretch < 1.003) return cool;
  return play(m, call.local, costs_of(m, call, plan, stretch), lists, disturbance, with_spans);
}

}  // namespace tilelace::sim
