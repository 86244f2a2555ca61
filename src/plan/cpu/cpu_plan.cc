// SPDX-License-Identifier: Apache-2.0
// Candidates, legality with reasons, a closed cost model, and the choice.
#include <fmt/core.h>

#include <algorithm>
#include <thread>

#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/base/schedules.h"
#include "plan/cpu/cpu_candidates.h"
#include "plan/tuning/tuned_plan.h"
#include "tilelace/op_table.h"
#include "tilelace/plan.h"
#include "tilelace/transport_table.h"

namespace tilelace {
namespace {

using schedule::ceil_div;

/// What a CPU rank needs to notice, start and signal one transfer, in seconds.
constexpr double kTransferOverhead = 50e-6;
/// The same for a copy in shared memory, which starts at once.
constexpr double kCopyOverhead = 10e-6;

/// What a call of this plan is expected to take, in seconds.
struct Cost {
  double gemm = 0, wire = 0, total = 0;
};

std::int64_t largest_shard(const Problem& p) {
  if (p.rows.empty()) return ceil_div(p.m, p.ranks);
  return *std::max_element(p.rows.begin(), p.rows.end());
}

/// Bytes that leave a rank in one call over the mesh.
double wire_bytes(const Problem& p, DType partials) {
  const double remote = static_cast<double>(p.ranks - 1) / p.ranks * static_cast<double>(p.m);
  if (row_of(p.op).gathers) {
    return remote * static_cast<double>(p.k) * static_cast<double>(size_of(p.dtype));
  }
  const double n = static_cast<double>(p.n[0]);
  const double reduce = remote * n * static_cast<double>(size_of(partials));
  return row_of(p.op).shares ? reduce + remote * n * static_cast<double>(size_of(p.dtype)) : reduce;
}

Cost cost_of(const Problem& p, const Plan& plan, const Machine& machine) {
  Cost c;
  c.gemm = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.total_n()) *
           static_cast<double>(row_of(p.op).multiplies() ? p.k : 1) / machine.rank_flops_per_s;
  const double rate = machine.link_bytes_per_s > 0 ? machine.link_bytes_per_s : 4e9;
  const auto chunks_a_shard =
      std::max<std::int64_t>(1, ceil_div(largest_shard(p), plan.chunk_rows));
  const double phases = row_of(p.op).phases();
  const double transfers = phases * static_cast<double>((p.ranks - 1) * chunks_a_shard);
  c.wire = wire_bytes(p, plan.partials) / rate;
  if (machine.link_bytes_per_s == 0 && machine.link_latency_s == 0) {
    // Copies and products share the cores: nothing overlaps, and finer pieces only cost.
    c.wire += transfers * kCopyOverhead;
    c.total = c.gemm * (1 + 0.05 * (plan.blocks - 1)) + c.wire;
    return c;
  }
  if (plan.path == Path::unfused) {
    c.wire += phases * (p.ranks - 1) * machine.link_latency_s;
    c.total = c.gemm + c.wire;
    return c;
  }
  c.wire += transfers * (machine.link_latency_s + kTransferOverhead);
  // Exposed is the last chunk's product (all-gather) or the first one's (reduce), one transfer's
  // worth of ranks being out of step, and for all-reduce the broadcast of the last block.
  const double parts = static_cast<double>(p.ranks * chunks_a_shard);
  c.total = std::max(c.gemm, c.wire + c.gemm / parts);
  if (p.ranks == 1) return c;
  if (row_of(p.op).sums) c.total += c.wire / transfers;
  if (row_of(p.op).shares) c.total += c.wire / (2.0 * (2.0 * plan.blocks - 1));
  return c;
}

/// Why a plan cannot run this problem; empty if it can.
std::string illegal(const Problem& p, const Plan& plan) {
  const bool mesh = plan.route == RouteKind::mesh;
  if (plan.tile_m < 1 || plan.tile_m > 4096) {
    return fmt::format("tile_m is {}, must be 1 to 4096", plan.tile_m);
  }
  if (plan.tile_n < 1 || plan.tile_n > 4096) {
    return fmt::format("tile_n is {}, must be 1 to 4096", plan.tile_n);
  }
  if (plan.chunk_rows < 1) {
    return fmt::format("chunk_rows is {}, must be at least 1", plan.chunk_rows);
  }
  if (plan.chunk_rows > plan::kMaxExtent) {
    return fmt::format("chunk_rows is {}, must be at most {}", plan.chunk_rows, plan::kMaxExtent);
  }
  if (plan.blocks < 1 || plan.blocks > 64) {
    return fmt::format("blocks is {}, must be 1 to 64", plan.blocks);
  }
  if (plan.blocks > 1 && !row_of(p.op).shares) return "only gemm_ar has blocks";
  const TransportRow& transport = row_of(plan.transport);
  if (transport.gpus) return fmt::format("{} is for GPU ranks", transport.name);
  if (transport.by_workers() && !mesh) return "transport store has no relays: it needs route mesh";
  if (transport.pulls && row_of(p.op).sums && !mesh) {
    return "transport pull has no relays for sums: it needs route mesh";
  }
  if (plan.straddle && !mesh) return "straddle needs route mesh";
  if (plan.straddle && row_of(p.op).shares)
    return "gemm_ar has no straddle: no tile crosses a border of its blocks";
  if (plan.route == RouteKind::two_level &&
      (plan.local_ranks < 1 || p.ranks % plan.local_ranks != 0)) {
    return fmt::format("two_level needs local_ranks that divide {} ranks", p.ranks);
  }
  return {};
}

Plan base_plan(const Problem& p, const Machine& machine, const PlanOptions& options) {
  Plan plan;
  plan.op = p.op;
  plan.workers = std::max(1, machine.workers);
  const int local = options.local_ranks.value_or(machine.local_ranks);
  plan.route =
      options.route.value_or(local > 0 && local < p.ranks ? RouteKind::two_level : RouteKind::mesh);
  const int whole = options.local_ranks ? local : p.ranks;  // an asked-for 0 is an error
  plan.local_ranks = plan.route != RouteKind::two_level ? 0 : local > 0 ? local : whole;
  plan.transport = options.transport.value_or(transport_that(Carrier::engine));
  plan.tile_m = options.tile_m.value_or(largest_shard(p) >= 256 ? 128 : 64);
  plan.tile_n = options.tile_n.value_or(256);
  plan.straddle = options.straddle.value_or(false);
  plan.partials = row_of(p.op).gathers ? p.dtype : options.partials.value_or(p.dtype);
  return plan;
}

}  // namespace

std::vector<Plan> plan::candidates(const Problem& p, const Machine& machine,
                                   const PlanOptions& options) {
  std::vector<Plan> all;
  const std::int64_t shard = std::max<std::int64_t>(1, largest_shard(p));
  for (const Path path : {Path::fused, Path::medium, Path::unfused}) {
    if (options.path && *options.path != path) continue;
    for (const int chunks : {8, 4, 2, 1}) {
      if (path != Path::fused && chunks != 1) continue;
      for (const int blocks : {4, 3, 2, 1}) {
        if ((!row_of(p.op).shares || path != Path::fused) && blocks != 1) continue;
        Plan plan = base_plan(p, machine, options);
        plan.path = path;
        plan.blocks = options.blocks.value_or(blocks);
        // Options are judged later: here they must only not divide by zero.
        const std::int64_t rows = ceil_div(shard, std::max(1, plan.blocks));
        const std::int64_t fine = std::clamp(plan.tile_m, 1, 64);
        plan.chunk_rows = options.chunk_rows.value_or(
            path == Path::fused ? ceil_div(ceil_div(rows, chunks), fine) * fine : shard);
        if (std::find(all.begin(), all.end(), plan) == all.end()) all.push_back(plan);
      }
    }
  }
  return all;
}

Machine cpu_machine(int ranks, int workers, double link_bytes_per_s, double link_latency_s) {
  require(ranks >= 1 && ranks <= plan::kMaxRanks, "cpu_machine: ranks: got {}, expected 1 to {}",
          ranks, plan::kMaxRanks);
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  Machine m;
  m.workers = workers > 0 ? workers : std::max(1, cores / ranks);
  m.link_bytes_per_s = link_bytes_per_s;
  m.link_latency_s = link_latency_s;
  m.rank_flops_per_s = 150e9 * std::min<double>(1.0 * m.workers * ranks, cores) / ranks;
  return m;
}

Plan make_plan(const Problem& p, const Machine& machine, const PlanOptions& options) {
  plan::check_problem(p);
  plan::check_options(p.op, options);
  if (machine.device == Device::cuda) return plan::tuned_or_predicted(p, machine, options);
  const Plan* best = nullptr;
  Cost best_cost;
  auto all = plan::candidates(p, machine, options);
  for (const Plan& plan : all) {
    const std::string why_not = illegal(p, plan);
    require(why_not.empty(), "{}: plan {} {} {} is not possible: {}", name_of(p.op),
            name_of(plan.path), name_of(plan.route), name_of(plan.transport), why_not);
    const Cost cost = cost_of(p, plan, machine);
    // A later candidate is simpler or coarser only: take it where it is clearly better.
    if (best == nullptr || cost.total < 0.98 * best_cost.total) {
      best = &plan;
      best_cost = cost;
    }
  }
  Plan chosen = *best;
  bool fastest = true;
  for (const Path path : {Path::fused, Path::medium, Path::unfused}) {
    double least = -1;
    for (const Plan& plan : all) {
      const double t = plan.path == path ? cost_of(p, plan, machine).total : -1;
      if (t >= 0 && (least < 0 || t < least)) least = t;
    }
    fastest = fastest && (least < 0 || least >= best_cost.total);
    if (path == chosen.path || least < 0) continue;
    chosen.rejected.push_back(fmt::format("{}: predicted {:.1f} us", name_of(path), least * 1e6));
  }
  const char* why = options.path ? "asked for" : fastest ? "fastest" : "within 2 % of the fastest";
  chosen.reason = fmt::format("{}, predicted {:.1f} us (GEMM {:.1f}, wire {:.1f})", why,
                              best_cost.total * 1e6, best_cost.gemm * 1e6, best_cost.wire * 1e6);
  const auto layout = plan::slot_layout(p, chosen);
  chosen.staging_bytes = layout.flag_bytes() + layout.data_bytes;
  chosen.staging_formula = layout.formula;
  return chosen;
}

}  // namespace tilelace
