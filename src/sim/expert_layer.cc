// SPDX-License-Identifier: Apache-2.0
#include "sim/expert_layer.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/check.h"
#include "hardware_values.h"
#include "plan/base/expert_product.h"
#include "plan/collectives/expert_collectives.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/gemm/gemm_cost.h"
#include "plan/gemm/gemm_plan.h"
#include "schedule/index.h"
#include "sim/kernel_call.h"

namespace tilelace::sim {
namespace {

using plan::GroupedProduct;
using plan::GroupedShape;
using plan::us_at;

/// One worker (a cluster's CTAs go together), whose groups take turns: a tile's end runs under the
/// main loop of the next one.
class Worker {
 public:
  void run(double loop_us, double end_us) {
    loop_end_ = std::max(loop_end_, before_) + loop_us;
    before_ = std::exchange(end_, loop_end_ + end_us);
  }
  [[nodiscard]] double end_us() const { return end_; }

 private:
  double loop_end_ = 0, before_ = 0, end_ = 0;  ///< before_: end of the tile before the last one
};

/// What a tile of a product takes and moves.
class TileCost {
 public:
  TileCost(const plan::Hardware& h, const GroupedProduct& p, const GroupedShape& shape)
      : h_(h),
        shape_(shape),
        steps_(static_cast<double>(schedule::ceil_div(p.k, plan::kStep))),
        row_bytes_(plan::kStep * static_cast<double>(size_of(p.dtype))) {}

  /// Main loop. `first`: the weight is not in L2 yet, and comes as fast as one alone gets it.
  [[nodiscard]] double loop_us(int width, bool first) const {
    const double flops = 2.0 * shape_.weight_rows * width * plan::kStep;
    const double rate = 1e3 * h_.peak_tflops * h_.efficiency / h_.multiprocessors;
    const double step =
        std::max(us_at(flops, rate), us_at(row_bytes_ * (shape_.weight_rows + width), h_.l2_gbps));
    const double weight = first ? us_at(row_bytes_ * shape_.weight_rows, h_.worker_memory_gbps) : 0;
    return steps_ * std::max(step, weight);
  }
  [[nodiscard]] double end_us(int width) const {
    return h_.tile_us * shape_.weight_rows * width / (128.0 * 256);
  }
  /// Of L2, by a worker: its CTAs share rows.
  [[nodiscard]] double loaded_bytes(int width) const {
    return steps_ * row_bytes_ * (shape_.weight_rows * shape_.cluster + width);
  }

 private:
  const plan::Hardware& h_;
  const GroupedShape& shape_;
  double steps_, row_bytes_;
};

double us_of(const MachineModel& m, const plan::Hardware& h, const plan::ExpertCollective& e) {
  plan::CollectiveMachine machine;
  machine.workers = static_cast<int>(m.compute.multiprocessors);
  machine.architecture = architecture_of_machine(m).value_or(0);
  return plan::collective_us(e.call, plan::plan_collective(e.call, machine, {}, false), h);
}

double gather_us(const MachineModel& m, const plan::Hardware& h, const MoeLayer& l,
                 std::int64_t tokens, int ranks) {
  constexpr double kWeightBytes = 4;
  if (l.replicated)
    return h.fixed_us +
           us_at(static_cast<double>(tokens * l.top_k) * kWeightBytes, m.links.local_gbps);
  double us = 0;
  for (const auto& e : plan::expert_gathers(l, tokens, ranks)) us += us_of(m, h, e);
  return us;
}

}  // namespace

std::string_view name_of(GroupedBound b) {
  switch (b) {
    case GroupedBound::tiles: return "tensor cores";
    case GroupedBound::few_tiles: return "few tiles";
    case GroupedBound::l2: return "L2";
    case GroupedBound::memory: return "memory";
    case GroupedBound::power: return "power";
    case GroupedBound::fixed: break;
  }
  return "launch";
}

std::string_view name_of(LayerPass p) {
  switch (p) {
    case LayerPass::gather: return "gather";
    case LayerPass::map: return "map";
    case LayerPass::permute: return "permute";
    case LayerPass::up: return "up";
    case LayerPass::down: return "down";
    case LayerPass::sum: return "sum";
    case LayerPass::reduce: break;
  }
  return "reduce";
}

double GroupedTime::total_us() const {
  const double clock_us = plan::both_limits_us(tiles_us, std::max(l2_us, memory_us));
  return fixed_us + plan::both_limits_us(clock_us, power_us);
}

GroupedBound GroupedTime::bound() const {
  const double most = std::max({tiles_us, l2_us, memory_us, power_us});
  if (fixed_us > most) return GroupedBound::fixed;
  if (most == memory_us) return GroupedBound::memory;
  if (most == power_us) return GroupedBound::power;
  if (most == l2_us) return GroupedBound::l2;
  // Without the wait for the last to end something else would be the limit.
  return even_us < std::max({l2_us, memory_us, power_us}) ? GroupedBound::few_tiles
                                                          : GroupedBound::tiles;
}

GroupedTime grouped_time(const plan::Hardware& h, const GroupedProduct& p,
                         const GroupedShape& shape, std::span<const int> expert_rows) {
  const schedule::GroupedTiles tiles = plan::grouped_tiles(p, shape);
  const TileCost cost(h, p, shape);
  const auto count =
      std::max<std::size_t>(1, static_cast<std::size_t>(h.multiprocessors) / shape.cluster);
  std::vector<Worker> workers(count);
  GroupedTime t;
  t.shape = shape, t.fixed_us = h.fixed_us;
  double loaded = 0, weights = 0;
  std::size_t next = 0;
  for (const int rows : expert_rows) {
    const int all = tiles.tiles(rows);
    for (int i = 0; i < all; ++i) {
      const schedule::GroupedCell cell = tiles.cell(rows, i);
      const bool first = cell.row % (tiles.deep * tiles.width(rows)) == 0;
      const double loop = cost.loop_us(cell.width, first), end = cost.end_us(cell.width);
      workers[next++ % count].run(loop, end);
      t.even_us += loop / static_cast<double>(count);
      loaded += cost.loaded_bytes(cell.width);
      if (cell.column == 0) t.computed_rows += cell.width;
      if (cell.column == 0 && first) weights += 1;
    }
    t.rows += std::max(rows, 0);
  }
  for (const Worker& w : workers) t.tiles_us = std::max(t.tiles_us, w.end_us());
  const auto n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double bytes = static_cast<double>(size_of(p.dtype)) *
                       (weights * n * k + t.rows * (k + static_cast<double>(p.out_n())));
  t.tiles = static_cast<double>(next);
  t.l2_us = us_at(loaded, h.l2_total_gbps);
  t.memory_us = us_at(bytes, h.memory_gbps);
  t.power_us = us_at(2 * t.computed_rows * n * k, 1e3 * h.power_tflops) +
               us_at(loaded, h.power_l2_gbps) + us_at(bytes, h.power_memory_gbps);
  return t;
}

plan::Hardware hardware_of(const MachineModel& m) { return plan::figures_of(m); }

double LayerTime::first_us() const {
  return of(LayerPass::gather) + of(LayerPass::map) + of(LayerPass::permute) + of(LayerPass::up);
}
double LayerTime::total_us() const { return std::accumulate(us.begin(), us.end(), 0.0); }

void check_experts(const MachineModel& m, const MoeLayer& l, int ranks) {
  const auto architecture = architecture_of_machine(m);
  require(architecture && plan::has_experts(*architecture),
          "simulate: --machine: got {} ({}), expected one of {}: only these have kernels for "
          "mixtures of experts",
          m.name, m.device, plan::architectures_with_experts());
  require(ranks >= 1 && ranks <= static_cast<int>(m.ranks_per_node),
          "simulate: --tp: got {} ranks, expected at most {} on {}", ranks, m.ranks_per_node,
          m.name);
  require(l.experts <= plan::kMostMoeExperts, "simulate: experts: got {}, expected at most {}",
          l.experts, plan::kMostMoeExperts);
  require(row_of(l.dtype).on_gpus, "simulate: --dtype: got {}, expected {}", name_of(l.dtype),
          names_of_gpu_dtypes());
}

LayerTime layer_time(const MachineModel& m, const MoeLayer& l, std::int64_t tokens, int ranks,
                     tilelace::Collective reduction, std::span<const int> expert_rows) {
  check_experts(m, l, ranks);
  const plan::Hardware h = hardware_of(m);
  const plan::GroupedPlans& plans = plan::plans_of(architecture_of_machine(m).value()).grouped;
  const std::int64_t pairs = tokens * l.top_k;
  const double item = static_cast<double>(size_of(l.dtype));
  // Both read or write all tokens and all rows.
  const double moved = item * static_cast<double>((tokens + pairs) * l.hidden);
  const auto product = [&](bool first) {
    const GroupedProduct p = plan::expert_product(l, tokens, first);
    return grouped_time(h, p, plans.rule(p), expert_rows);
  };
  LayerTime t;
  t.up = product(true);
  t.down = product(false);
  t.us = {gather_us(m, h, l, tokens, ranks),
          h.fixed_us + static_cast<double>(pairs) / m.experts.map_pairs_per_us,
          h.fixed_us + us_at(moved, m.experts.permute_gbps),
          t.up.total_us(),
          t.down.total_us(),
          h.fixed_us + us_at(moved, 2 * m.links.local_gbps),  // a copy is read and written
          us_of(m, h, plan::expert_sum(l, tokens, ranks, reduction))};
  return t;
}

}  // namespace tilelace::sim
