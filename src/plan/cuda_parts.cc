// SPDX-License-Identifier: Apache-2.0
#include "plan/cuda_parts.h"

#include "core/check.h"

namespace tilelace::plan {

bool wanted(const GemmTile& t, const PlanOptions& o) {
  return o.tile_m.value_or(t.worker_tokens()) == t.worker_tokens() &&
         o.tile_n.value_or(t.worker_columns()) == t.worker_columns();
}

Plan plan_of(const Problem& p, const GemmPlan& g, int tiles) {
  Plan plan;
  plan.op = p.op;
  plan.tile_m = g.tile.worker_tokens();
  plan.tile_n = g.tile.worker_columns();
  plan.workers = g.workers;
  plan.partials = p.dtype;
  const int workers = g.split_tiles == 0 ? std::min(g.workers, tiles) : g.workers;
  plan.kernel = {.tile = std::string(g.tile.name),
                 .grid = workers * g.tile.cluster(),
                 .split_tiles = g.split_tiles,
                 .rounds = g.rounds,
                 .group = g.group,
                 .wide = g.wide,
                 .deep = g.deep,
                 .along_cols = g.along_cols,
                 .by_neighbours = g.by_neighbours,
                 .early_weights = g.early_weights};
  return plan;
}

GemmPlan gemm_plan_of(const Plan& plan) {
  const KernelPlan& k = plan.kernel;
  if (k.tile.empty()) return {};
  const auto* const tile = std::find_if(std::begin(kGemmTiles), std::end(kGemmTiles),
                                        [&](const GemmTile& t) { return t.name == k.tile; });
  require(tile != std::end(kGemmTiles), "{}: tile, got {}, expected a compiled one",
          name_of(plan.op), k.tile);
  return {*tile,  plan.workers, k.split_tiles,   k.rounds,        k.group, k.along_cols,
          k.wide, k.deep,       k.by_neighbours, k.early_weights, false,   0};
}

Plan empty_plan(const Problem& p, const PlanOptions& o, Path path, Transport transport) {
  Plan plan;
  plan.op = p.op;
  plan.path = o.path.value_or(path);
  plan.transport = o.transport.value_or(transport);
  plan.chunk_rows = o.chunk_rows.value_or(1);
  plan.workers = 0;
  plan.reason = "no rows: the ranks only agree";
  return plan;
}

std::string reason_of(const PlanOptions& o, std::size_t plans, double predicted_us) {
  return fmt::format("{} of {} plans, predicted {:.1f} us",
                     o == PlanOptions{} ? "fastest" : "fastest of what was asked for,", plans,
                     predicted_us);
}

}  // namespace tilelace::plan
