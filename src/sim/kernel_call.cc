// SPDX-License-Identifier: Apache-2.0
#include "sim/kernel_call.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "core/architecture.h"
#include "plan/base/problem.h"
#include "plan/base/schedules.h"
#include "plan/gpu/gpu_ways.h"
#include "plan/gpu/kernel_choice.h"
#include "sim/grid.h"
#include "tilelace/error.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace::sim {
namespace {

using plan::AgGemmWay;
using plan::GemmPlan;
using plan::GemmRsWay;
using plan::UnfusedSumWay;

/// Plans of other kinds that the planner's predictions do not tell from its first choice.
constexpr double kAlike = 1.05;
/// Ways from one rank to another until a reader sees what a worker stores: the stores and their
/// acknowledgment, the flag.
constexpr int kWaysOfAPartial = 3;

Machine planner_machine(const MachineModel& m) {
  Machine machine = cuda_machine(static_cast<int>(m.compute.multiprocessors));
  machine.architecture = architecture_of_machine(m).value_or(0);
  machine.cublas = false;  // only this library's kernels are played
  return machine;
}

bool is_played(const Plan& p) {
  if (plan::way_if<UnfusedSumWay>(p) != nullptr) return row_of(p.op).scatters();
  if (plan::way_if<GemmRsWay>(p) != nullptr) return true;
  const auto* gather = plan::way_if<AgGemmWay>(p);
  return gather != nullptr && gather->path == Path::fused &&
         !row_of(gather->transport).needs_nccl();
}

/// Multiprocessors of what is a worker here.
int multiprocessors_of(const Plan& p) {
  const auto* reduce = plan::way_if<GemmRsWay>(p);
  return reduce != nullptr && reduce->pairs ? 1 : plan::gemm_of(p.kernel->way).tile.cluster();
}

/// The planner's, fastest prediction first, without shared k-steps by shard, whose partials are not
/// played; none of sizes that kernels do not take.
std::vector<plan::CudaWay> ways_of(const MachineModel& m, const Call& call) {
  try {
    auto all = plan::cuda_ways(call.problem, planner_machine(m));
    std::erase_if(all, [](const plan::CudaWay& way) {
      const auto* gather = plan::way_if<AgGemmWay>(way.plan);
      return gather != nullptr && gather->shares_by_shard();
    });
    return all;
  } catch (const Error&) {
    return {};
  }
}

schedule::GemmOrder walk_of(const GemmPlan& g) {
  schedule::GemmOrder walk;
  walk.group = g.group;
  walk.along_cols = g.along_cols;
  walk.wide = g.wide;
  walk.deep = g.deep;
  return walk;
}

int workers_of(const Plan& p) {
  return p.workers * plan::gemm_of(p.kernel->way).tile.cluster() / multiprocessors_of(p);
}

/// The schedule's words: neither way has tiles behind those of the shards.
Plan words_of(const Plan& p) {
  Plan words = p;
  words.straddle = false;
  words.workers = workers_of(p);
  return words;
}

std::vector<StepList> record_gather(const Problem& p, const Plan& plan, const AgGemmWay& way,
                                    int rank, const std::vector<plan::Index>& even) {
  schedule::GatherWalking how;
  how.walk = walk_of(way.gemm);
  how.apart = way.joins.empty() ? way.apart : 0;
  how.whole = way.whole;
  how.across = way.whole && way.gemm.tile.swapped;
  // A way has joins of peers, the first to arrive in front; an order's begin with the own shard.
  std::copy(way.joins.begin(), way.joins.end(), std::next(std::begin(how.joins.after)));
  return record(schedule::make_gather_tiles<schedule::kMaxGpuRanks>(
      plan::gather_schedule(p, words_of(plan), rank, even), how));
}

std::vector<StepList> record_reduce(const Problem& p, const Plan& plan, const GemmRsWay& way,
                                    int rank, const std::vector<plan::Index>& even) {
  Plan words = words_of(plan);
  if (way.pairs) words.tile_m = way.gemm.tile.rows();
  const auto s = plan::reduce_schedule(p, words, rank, even);
  if (way.pairs) return record(schedule::make_pair_tiles(s, walk_of(way.gemm)));
  return record(
      schedule::make_reduce_tiles<schedule::kMaxGpuRanks>(s, walk_of(way.gemm), way.apart == 1));
}

/// Tiles of all workers.
double tiles_of_kernel(const Problem& p, const Plan& plan) {
  const double clusters =
      std::visit([&](const auto& way) { return static_cast<double>(plan::tiles_of(way, p)); },
                 plan.kernel->way);
  return clusters * workers_of(plan) / std::max(1, plan.workers);
}

/// A worker's tile, so that the busiest worker's tiles take what the product alone takes of it.
double tile_of_kernel_us(const MachineModel& m, const Problem& p, const Plan& plan,
                         double stretch) {
  const GemmPlan& g = plan::gemm_of(plan.kernel->way);
  const double workers = workers_of(plan), tiles = tiles_of_kernel(p, plan);
  const double listed = std::max(1.0, std::ceil(tiles / workers));
  const double beside =
      std::max(1.0, workers * multiprocessors_of(plan) / m.compute.multiprocessors);
  // One wave, then as many as there are; k-steps that are shared leave no worker out.
  GemmTime t =
      gemm_time(m.compute, product_of(p), {g.tile.rows(), g.tile.width}, m.compute.multiprocessors);
  t.waves_us *= stretch * beside * (g.split_tiles > 0 ? tiles / workers : listed);
  return t.clock_us() / listed / m.method.product_rate;
}

/// Whether copy engines have a part in the call: their streams fork and join around it.
bool by_engines(const Plan& plan) { return !row_of(plan.transport).by_workers(); }

}  // namespace

std::optional<int> architecture_of_machine(const MachineModel& m) {
  const int capability = static_cast<int>(m.compute.capability);
  return architecture_of(capability / 10, capability % 10);
}

bool own_kernels_run(const MachineModel& m) {
  return m.method.own_kernels > 0 && architecture_of_machine(m).has_value();
}

bool has_kernels(const MachineModel& m, const Call& call) {
  const Problem& p = call.problem;
  return own_kernels_run(m) && !row_of(p.op).shares && row_of(p.op).multiplies() &&
         m.links.topology == Topology::all_to_all && p.m > 0 && p.ranks > 1 &&
         call.local == p.ranks && p.ranks <= schedule::kMaxGpuRanks &&
         p.k % plan::grain_of(p.dtype) == 0 && p.total_n() % plan::grain_of(p.dtype) == 0;
}

std::vector<Plan> kernel_plans(const MachineModel& m, const Call& call, const Choices& choices) {
  const bool asked = choices.route || choices.transport || choices.chunk_rows || choices.tile;
  std::vector<Plan> all;
  if (asked || choices.blocks) return all;
  std::set<std::string> kinds;
  double least = 0;
  for (const plan::CudaWay& way : ways_of(m, call)) {
    if (!is_played(way.plan)) continue;
    if (all.empty()) least = way.predicted_us;
    if (way.predicted_us > kAlike * least) break;
    if (kinds.insert(way.kind).second) all.push_back(way.plan);
  }
  return all;
}

std::vector<std::vector<StepList>> record_kernel(const Call& call, const Plan& plan) {
  const Problem& p = call.problem;
  const std::vector<plan::Index> even;
  std::vector<std::vector<StepList>> lists;
  for (int r = 0; r < p.ranks; ++r) {
    if (const auto* gather = plan::way_if<AgGemmWay>(plan))
      lists.push_back(record_gather(p, plan, *gather, r, even));
    else if (const auto* reduce = plan::way_if<GemmRsWay>(plan))
      lists.push_back(record_reduce(p, plan, *reduce, r, even));
  }
  return lists;
}

Costs kernel_costs(const MachineModel& m, const Call& call, const Plan& plan, double stretch) {
  const Problem& p = call.problem;
  const GemmPlan& g = plan::gemm_of(plan.kernel->way);
  const double element = static_cast<double>(size_of(p.dtype));
  const double tile = tile_of_kernel_us(m, p, plan, stretch);
  Costs c;
  c.tile_us = [tile](int) { return tile; };
  c.row_bytes = static_cast<double>(row_of(p.op).gathers ? p.k : p.n[0]) * element;
  c.tile_row_bytes = std::min<double>(plan.tile_n, static_cast<double>(p.total_n())) * element;
  c.multiprocessors = multiprocessors_of(plan);
  c.reduce_gbps = m.method.sum_gbps * c.multiprocessors;
  c.spare_senders = true;
  const double late = by_engines(plan) || !g.early_weights ? m.method.fused_call_us : 0;
  c.launch_us = m.compute.fixed_us + late;
  c.copy_launch_us = late;
  c.resident = workers_of(plan);
  c.route = {plan.route, p.ranks, p.ranks};
  return c;
}

Outcome product_and_sum(const MachineModel& m, const Call& call, const Plan& plan,
                        const Disturbance& d) {
  const Problem& p = call.problem;
  const double rows = static_cast<double>(shard_rows(p));
  const double bytes = rows * (p.ranks - 1) * static_cast<double>(p.n[0] * size_of(p.dtype));
  const double throttle = gemm_time(m.compute, product_of(p)).throttle();
  const double tiles = std::ceil(tiles_of_kernel(p, plan) / workers_of(plan));
  // All wait for the slowest.
  const double slow = (d.straggler >= 0 ? std::max(1.0, d.straggle) : 1) * (1 + d.tile_noise);
  const double begin = m.compute.fixed_us + d.start_us;
  Outcome out;
  out.compute_us = slow * tiles * tile_of_kernel_us(m, p, plan, throttle);
  // Peers' partials are announced, asked for and loaded.
  out.wire_us = bytes * 1e-3 / m.links.store_gbps;
  out.reduce_us = (kWaysOfAPartial + 2) * m.links.latency_us + out.wire_us;
  const double given = begin + out.compute_us;
  out.end_us = given + out.reduce_us;
  out.bytes = bytes * p.ranks;
  for (int r = 0; r < p.ranks; ++r) {
    out.rank_end_us.push_back(out.end_us);
    out.spans.push_back({SpanKind::compute, r, 0, r, begin, given});
    out.spans.push_back({SpanKind::reduce, r, 0, r, given, out.end_us});
  }
  return out;
}

}  // namespace tilelace::sim
