// SPDX-License-Identifier: Apache-2.0
#include "plan/base/schedules.h"

#include <fmt/core.h>

#include "plan/base/problem.h"
#include "tilelace/op_table.h"

namespace tilelace::plan {
namespace {

std::int64_t align(std::int64_t bytes, std::int64_t to) { return (bytes + to - 1) / to * to; }

schedule::Route route_of(const Problem& p, const Plan& plan) {
  const int local = plan.route == RouteKind::two_level ? plan.local_ranks : p.ranks;
  return {plan.route, p.ranks, local};
}

/// Bands that share a column panel while it is in cache: those of one chunk, at most four.
Index raster_group(const Plan& plan) {
  return schedule::max_of(1, schedule::min_of(4, plan.chunk_rows / plan.tile_m));
}

/// What the schedules of all ops share.
template <class Schedule>
Schedule common_schedule(const Problem& p, const Plan& plan, int rank,
                         const std::vector<Index>& borders) {
  Schedule s;
  s.route = route_of(p, plan);
  s.split = split_of(p, borders);
  s.rank = rank;
  s.workers = plan.workers;
  s.tile_m = plan.tile_m;
  s.cols = column_tiles(p, plan.tile_n);
  s.chunk_rows = plan.chunk_rows;
  s.raster_group = raster_group(plan);
  s.transport = plan.transport;
  s.straddle = plan.straddle;
  return s;
}

}  // namespace

std::vector<Index> borders_of(const Problem& p) {
  if (p.rows.empty()) return {};
  std::vector<Index> borders{0};
  for (const auto rows : p.rows) borders.push_back(borders.back() + rows);
  return borders;
}

schedule::RowSplit split_of(const Problem& p, const std::vector<Index>& borders) {
  return {p.m, p.ranks, borders.empty() ? nullptr : borders.data()};
}

Index tile_rows_by_shard(const schedule::RowSplit& split, Index rows) {
  Index tiles = 0;
  for (int r = 0; r < split.ranks; ++r) tiles += schedule::ceil_div(split.shard(r).size(), rows);
  return tiles;
}

Index column_tiles(const Problem& p, int tile_n) {
  Index cols = 0;
  for (std::size_t i = 0; i < p.outputs(); ++i) cols += schedule::ceil_div(p.n[i], tile_n);
  return cols;
}

schedule::AgGemm gather_schedule(const Problem& p, const Plan& plan, int rank,
                                 const std::vector<Index>& borders) {
  auto s = common_schedule<schedule::AgGemm>(p, plan, rank, borders);
  s.deliver = p.return_gathered;
  return s;
}

schedule::GemmReduce reduce_schedule(const Problem& p, const Plan& plan, int rank,
                                     const std::vector<Index>& borders) {
  auto s = common_schedule<schedule::GemmReduce>(p, plan, rank, borders);
  s.blocks = plan.blocks;
  s.block_grain = 16 * p.ranks;
  s.all_reduce = row_of(p.op).shares;
  return s;
}

SlotLayout slot_layout(const Problem& p, const Plan& plan) {
  const auto borders = borders_of(p);
  SlotLayout l;
  if (row_of(p.op).gathers) {
    l.num_flags = gather_schedule(p, plan, 0, borders).num_flags();
    l.gathered_row_bytes = align(input_row_bytes(p), 64);
    l.data_bytes = p.m * l.gathered_row_bytes;
    l.formula =
        fmt::format("flags 4*{} + gathered m {} * row {}", l.num_flags, p.m, l.gathered_row_bytes);
    return l;
  }
  const auto s = reduce_schedule(p, plan, 0, borders);
  l.num_flags = s.num_flags();
  l.partial_row_bytes = align(p.n[0] * static_cast<std::int64_t>(size_of(plan.partials)), 64);
  l.incoming = p.m * l.partial_row_bytes;
  l.result = l.incoming + s.incoming_rows() * l.partial_row_bytes;
  l.formula = fmt::format("flags 4*{} + (outgoing m {} + incoming {}) * row {}", l.num_flags, p.m,
                          s.incoming_rows(), l.partial_row_bytes);
  l.data_bytes = l.result;
  if (s.all_reduce) {
    l.result_row_bytes = align(p.n[0] * static_cast<std::int64_t>(size_of(p.dtype)), 64);
    l.data_bytes += p.m * l.result_row_bytes;
    l.formula += fmt::format(" + result m {} * row {}", p.m, l.result_row_bytes);
  }
  return l;
}

}  // namespace tilelace::plan
