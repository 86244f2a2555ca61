// SPDX-License-Identifier: Apache-2.0
#include "sim/call.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "core/check.h"
#include "plan/base/schedules.h"
#include "sim/grid.h"
#include "sim/kernel_call.h"
#include "tilelace/op_table.h"

namespace tilelace::sim {
namespace {

constexpr int kMostRanks = 1024;
constexpr std::int64_t kMostRows = 1 << 24;
/// Transfers and tiles of all ranks that a call may have: beyond, lists fill the memory.
constexpr double kMostSteps = 3e7;

double element_bytes(const Problem& p) { return static_cast<double>(size_of(p.dtype)); }

void check_size(const Problem& p, const Plan& plan) {
  const double ranks = p.ranks;
  const auto chunks = static_cast<double>(ceil_div(shard_rows(p), plan.chunk_rows));
  const double transfers = ranks * std::max(1.0, ranks - 1) * chunks;
  require(
      transfers <= kMostSteps,
      "{}: chunk {}: got {:.2g} transfers on all ranks, expected at most {:.0e}: use larger chunks",
      name_of(p.op), plan.chunk_rows, transfers, kMostSteps);
  const double tiles = ranks * tiles_of(p, plan, plan.tile_n);
  require(
      tiles <= kMostSteps,
      "{}: tile {}x{}: got {:.2g} tiles on all ranks, expected at most {:.0e}: use larger tiles",
      name_of(p.op), plan.tile_m, plan.tile_n, tiles, kMostSteps);
}

}  // namespace

void check_call(const MachineModel& m, const Call& call) {
  const Problem& p = call.problem;
  const auto op = name_of(p.op);
  require(p.ranks >= 1 && p.ranks <= kMostRanks, "{}: ranks: got {}, expected 1 to {}", op, p.ranks,
          kMostRanks);
  if (!row_of(p.dtype).on_gpus)
    raise(ErrorKind::usage,
          "{}: --dtype: got {}, expected {}: machine files have rates of 16-bit products only", op,
          name_of(p.dtype), names_of_gpu_dtypes());
  require(call.local >= 1 && p.ranks % call.local == 0,
          "{}: ranks per node: got {}, expected a divisor of {}", op, call.local, p.ranks);
  const auto most = static_cast<int>(m.ranks_per_node);
  require(call.local <= most,
          "{}: --tp: got {} ranks per node, expected at most {} on {}: use --nodes for more", op,
          call.local, most, m.name);
  const int nodes = p.ranks / call.local;
  require(nodes <= static_cast<int>(m.max_nodes), "{}: --nodes: got {}, expected at most {} on {}",
          op, nodes, m.max_nodes, m.name);
  require(p.m >= 0 && p.m <= kMostRows, "{}: m: got {}, expected 0 to {}", op, p.m, kMostRows);
  require(p.total_n() >= 1 && p.total_n() <= kMostRows && p.k >= 1 && p.k <= kMostRows,
          "{}: n and k per rank: got {} and {}, expected 1 to {}", op, p.total_n(), p.k, kMostRows);
}

Call call_of(Problem problem, int local) {
  problem.n = {problem.total_n()};
  problem.activation = Activation::none;
  return {std::move(problem), local};
}

Product product_of(const Problem& p) {
  return {p.m, p.total_n(), row_of(p.op).multiplies() ? p.k : 1, element_bytes(p)};
}

std::vector<std::vector<StepList>> record_call(const Call& call, const Plan& plan) {
  const Problem& p = call.problem;
  check_size(p, plan);
  if (plan.kernel != nullptr) return record_kernel(call, plan);
  const std::vector<plan::Index> even;
  std::vector<std::vector<StepList>> lists;
  for (int r = 0; r < p.ranks; ++r) {
    const auto add = [&](const auto& tiles) { lists.push_back(record(tiles)); };
    plan::with_schedule(p, plan, r, even,
                        [&](const auto& s) { schedule::with_tiles<kMostRanks>(s, add); });
  }
  return lists;
}

namespace {

/// A worker's tile: its share of what the whole grid takes, so that a call without any wait takes
/// what the product alone does.
std::function<double(int)> fused_tiles(const MachineModel& m, const Problem& p, const Plan& plan,
                                       double stretch) {
  const int group = std::max(1, static_cast<int>(m.compute.multiprocessors) / plan.workers);
  const Tile tile{plan.tile_m, plan.tile_n / group};
  const GemmTime whole = gemm_time(m.compute, product_of(p), tile, tiles_of(p, plan, tile.cols));
  const double waves = std::max(1.0, std::ceil(tiles_of(p, plan, plan.tile_n) / plan.workers));
  const double each = whole.stretched(stretch).clock_us() / waves / m.method.product_rate;
  return [each](int) { return each; };
}

std::function<double(int)> medium_tiles(const MachineModel& m, const Problem& p, double stretch) {
  auto known = std::make_shared<std::map<int, double>>();
  const Compute device = m.compute;
  const double stage = m.method.medium_stage_us;
  return [device, stage, p, stretch, known](int rows) {
    const auto at = known->find(rows);
    if (at != known->end()) return at->second;
    Product part = product_of(p);
    part.m = rows;
    const GemmTime t = gemm_time(device, part);
    return (*known)[rows] = t.stretched(stretch).clock_us() + t.fixed_us + stage;
  };
}

}  // namespace

Costs costs_of(const MachineModel& m, const Call& call, const Plan& plan, double stretch) {
  if (plan.kernel != nullptr) return kernel_costs(m, call, plan, stretch);
  const Problem& p = call.problem;
  const bool medium = plan.path == Path::medium;
  const double wide = static_cast<double>(row_of(p.op).gathers ? p.k : p.n[0]);
  Costs c;
  c.tile_us = medium ? medium_tiles(m, p, stretch) : fused_tiles(m, p, plan, stretch);
  c.row_bytes = wide * element_bytes(p);
  c.tile_row_bytes = std::min(static_cast<double>(plan.tile_n), static_cast<double>(p.total_n())) *
                     element_bytes(p);
  c.reduce_gbps = m.compute.memory_gbps / plan.workers;
  if (!medium && own_kernels_run(m))
    c.reduce_gbps =
        std::min(c.reduce_gbps, m.method.sum_gbps * m.compute.multiprocessors / plan.workers);
  c.launch_us = medium ? m.method.medium_call_us : m.compute.fixed_us + m.method.fused_call_us;
  c.copy_launch_us = medium ? m.method.medium_call_us : m.method.fused_call_us;
  c.resident = plan.workers;
  const int local = plan.route == RouteKind::two_level ? plan.local_ranks : p.ranks;
  c.route = {plan.route, p.ranks, local};
  return c;
}

Outcome simulate(const MachineModel& m, const Call& call, const Plan& plan,
                 const Disturbance& disturbance, bool with_spans) {
  if (plan.path == Path::unfused) return product_and_sum(m, call, plan, disturbance);
  const auto lists = record_call(call, plan);
  const GemmTime gemm = gemm_time(m.compute, product_of(call.problem));
  const auto played = [&](double stretch, const Disturbance& d) {
    return play(m, call.local, costs_of(m, call, plan, stretch), lists, d, with_spans);
  };
  const double alone = gemm.throttle();
  // Who holds the others up has no power to spare.
  Outcome calm = played(alone, {});
  const double gain =
      clock_gain(m.compute, calm.end_us, gemm.total_us(), m.links.power_share * calm.wire_us);
  if (gain == 1 && disturbance == Disturbance{}) return calm;
  return played(alone / gain, disturbance);
}

}  // namespace tilelace::sim
