// SPDX-License-Identifier: Apache-2.0
#include "plan/ways/ag_gemm_way.h"

#include <algorithm>

#include "plan/base/problem.h"
#include "plan/base/schedules.h"
#include "plan/gemm/gemm_cost.h"
#include "plan/ways/ag_gemm_products.h"
#include "plan/ways/gather_arrival.h"
#include "tilelace/transport_table.h"

namespace tilelace::plan {

using schedule::Index;

namespace {

/// Of the products behind the first one, on m rows.
double other_products_us(const Problem& p, const GemmPlan& gemm, Index m,
                         const GemmMachine& machine) {
  if (p.activation == Activation::swiglu) return 0;
  double us = 0;
  for (std::size_t i = 0; i < p.n.size(); ++i) {
    if (i == widest_product(p)) continue;
    const GemmProblem product = product_of(p, i, m);
    us += product_us(product, gemm, {work_of(gemm, product).order.tiles()}, machine);
  }
  return us;
}

}  // namespace

GemmProblem first_product(const Problem& p, const GemmTile& tile, Index m) {
  return is_merged(p, tile) ? merged_product(p, tile, m) : product_of(p, widest_product(p), m);
}

double behind_first_us(const Problem& p, const GemmPlan& gemm, Index m,
                       const GemmMachine& machine) {
  return is_merged(p, gemm.tile) ? 0 : other_products_us(p, gemm, m, machine);
}

Index tiles_by_shard(const Problem& p, const GemmTile& tile, const schedule::RowSplit& split) {
  return tile_rows_by_shard(split, tile.worker_tokens()) *
         schedule::ceil_div(first_product(p, tile, p.m).n, tile.worker_columns());
}

double cut_products_us(const Problem& p, const GemmPlan& gemm, const TileCut& cut,
                       const GemmMachine& machine) {
  return product_us(first_product(p, gemm.tile, p.m), gemm, cut, machine) +
         behind_first_us(p, gemm, p.m, machine);
}

GemmProblem product_of(const Problem& p, std::size_t i, std::int64_t m) {
  const bool gated = p.activation == Activation::swiglu;
  return {m, gated ? p.total_n() : p.n.at(i), p.k, p.dtype, gated};
}

std::size_t widest_product(const Problem& p) {
  if (p.activation == Activation::swiglu) return 0;
  return static_cast<std::size_t>(std::max_element(p.n.begin(), p.n.end()) - p.n.begin());
}

GemmProblem merged_product(const Problem& p, const GemmTile& t, std::int64_t m) {
  const Index cols = t.worker_columns();
  GemmProblem all{m, 0, p.k, p.dtype};
  for (const Index n : p.n) all.n += schedule::ceil_div(n, cols) * cols;
  return all;
}

bool is_merged(const Problem& p, const GemmTile& t) {
  return p.outputs() > 1 && p.n.size() <= static_cast<std::size_t>(kMostWeights) &&
         can_merge(t.blocks, t.width);
}

double products_us(const Problem& p, const AgGemmWay& plan, const GemmMachine& machine) {
  if (plan.whole || plan.path == Path::medium)
    return plan.gemm.predicted_us + behind_first_us(p, plan.gemm, p.m, machine);
  return cut_products_us(p, plan.gemm, {tiles_of(plan, p)}, machine);
}

int tiles_of(const AgGemmWay& plan, const Problem& p) {
  const auto borders = borders_of(p);
  const schedule::RowSplit split = split_of(p, borders);
  const GemmTile& tile = plan.gemm.tile;
  const bool medium = plan.path == Path::medium;
  if (!plan.whole && !medium) return static_cast<int>(tiles_by_shard(p, tile, split));
  return work_of(plan.gemm, first_product(p, tile, medium ? split.max_rows() : p.m)).order.tiles();
}

int AgGemmWay::left_free() const {
  if (row_of(transport).needs_nccl()) return kNcclMultiprocessors;
  return relays() ? kRelayMultiprocessors : 0;
}

schedule::GatherOrder shard_order(const schedule::GatherOrder& all, int section) {
  schedule::GatherOrder one = all;
  one.walks = 0;
  one.walked[0] = {};
  one.append(section, section + 1, 0, all.walk.cols);
  return one;
}

double gather_us(const Problem& p, Transport transport, RouteKind route, const Hardware& h) {
  const std::vector<Index> borders = borders_of(p);
  const Index rows = split_of(p, borders).max_rows();
  const Travel way{transport, route, schedule::max_of(1, rows)};
  return arrival_us(h, {way, rows, input_row_bytes(p), p.ranks}, p.ranks - 1);
}

}  // namespace tilelace::plan
