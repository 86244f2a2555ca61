// SPDX-License-Identifier: Apache-2.0
#include "plan/ways/gather_walks.h"

#include <algorithm>
#include <cmath>

#include "plan/gemm/gemm_cost.h"
#include "plan/gemm/gemm_plan.h"
#include "schedule/make_gather_order.h"

namespace tilelace::plan {
namespace {

using schedule::Index;

/// Of tiles that predictions look at one by one.
constexpr Index kMostWaves = 1024;
constexpr double kFastFlopsPerUs = 6e6;  ///< of a multiprocessor

/// Of the weight, by a walk over so many rows. Only the first product walks shards apart.
Index readings(Index rows) { return schedule::ceil_div(rows, kWalkRows); }

}  // namespace

GatherWalks::GatherWalks(const Problem& p, Index most_rows, Index first_n)
    : p_(p), most_rows_(most_rows), first_n_(first_n) {}

double GatherWalks::late_us(const GatherWalk& w, int apart, Arrival a) const {
  const Index tiles = w.rows * w.cols;
  const double turn = w.us / static_cast<double>(schedule::ceil_div(tiles, w.workers));
  const double each = p_.ranks > 2 ? (a.last_us - a.first_us) / (p_.ranks - 2) : 0;
  // Several waves at a time where there are more than any call that is made has.
  const Index waves = schedule::max_of(1, tiles / w.workers / kMostWaves);
  double last = 0;
  for (int worker = 0; worker < w.workers; ++worker) {
    double end = 0;
    Index t = worker;
    for (; t < tiles && end < a.last_us; t += waves * w.workers) {
      const auto shard = static_cast<int>(t * p_.ranks / tiles);
      if (shard > 0)
        end = std::max(end, shard < apart ? a.first_us + (shard - 1) * each : a.last_us);
      end += static_cast<double>(waves) * turn;
    }
    // Nobody waits any more.
    if (t < tiles) end += turn * static_cast<double>(schedule::ceil_div(tiles - t, w.workers));
    last = std::max(last, end);
  }
  return std::max(0.0, last - w.us);
}

double GatherWalks::reread_us(const GatherWalk& w, int apart) const {
  if (p_.ranks == 2) return 0;
  Index count = apart * readings(most_rows_);
  if (apart < p_.ranks) count += readings(p_.m - apart * most_rows_);
  const Index waves = schedule::ceil_div(w.rows * w.cols, w.workers);
  const Index more = std::max<Index>(0, std::min(count, waves) - readings(p_.m));
  return static_cast<double>(more) * reading_us();
}

GatherJoining GatherWalks::joining(const GemmTile& t, const GatherWalk& w, Arrival a) const {
  const double turn = 2.0 * static_cast<double>(t.rows() * t.width * p_.k) / kFastFlopsPerUs;
  GatherJoining joining;
  schedule::GatherOrder order;
  schedule::GatherJoins joins;
  order.walk.cols = static_cast<int>(w.cols);
  for (int i = 0; i < p_.ranks; ++i) {
    order.tile_rows[order.count++] = static_cast<int>(schedule::ceil_div(w.rows, p_.ranks));
    if (i == 0) continue;
    const double of = p_.ranks > 2 ? static_cast<double>(i - 1) / (p_.ranks - 2) : 1;
    const double us = a.first_us + of * (a.last_us - a.first_us);
    joins.after[i] = static_cast<int>(
        std::min(std::ceil(us / turn) * w.workers, static_cast<double>(w.rows * w.cols)));
    joining.after.push_back(joins.after[i]);
  }
  schedule::detail::walk_joined(order, joins);
  Index columns = 0;
  for (int i = 0; i < order.walks; ++i)
    columns += order.walked[i].cols * readings(order.walked[i].rows * t.worker_tokens());
  const Index apart = readings(most_rows_) + readings(p_.m - most_rows_);
  const double saved =
      static_cast<double>(apart) - static_cast<double>(columns) / static_cast<double>(w.cols);
  joining.saved_us = saved * reading_us();
  return joining;
}

double GatherWalks::reading_us() const {
  return static_cast<double>(first_n_ * p_.k * static_cast<Index>(size_of(p_.dtype))) *
         kRereadUsPerByte;
}

}  // namespace tilelace::plan
