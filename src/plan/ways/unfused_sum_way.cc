// SPDX-License-Identifier: Apache-2.0
#include "plan/ways/unfused_sum_way.h"

#include <algorithm>

#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/base/schedules.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/gemm/share.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace::plan {
namespace {

using schedule::ceil_div;
using schedule::Index;
using schedule::SumForm;

/// Above this size other plans are as fast.
constexpr Index kMostPushedBytes = Index{16} << 20;

constexpr Index kRounds = 4;  ///< chunks per CTA, if there is enough work

/// For these numbers of rows cuBLASLt's product takes this part of the time of our fastest kernel,
/// if that is one of clusters, in the mean of what was timed (decision 0031); else it is no faster.
constexpr schedule::RowRange kCublasRows{97, 400};
constexpr double kCublasTime = 0.95;

void require_sum(const Problem& p) {
  const auto op = name_of(p.op);
  require(row_of(p.op).sums, "{}: op: got {}, expected gemm_rs or gemm_ar", op, op);
  check_problem(p);
  require(p.ranks <= schedule::kMaxGpuRanks, "{}: ranks: got {}, expected at most {}", op, p.ranks,
          schedule::kMaxGpuRanks);
}

SumForm form_of(const Problem& p, bool shared) {
  if (row_of(p.op).scatters()) return SumForm::own_rows;
  return shared ? SumForm::shared_rows : SumForm::all_rows;
}

SumForm form_of(const Problem& p, const UnfusedSumWay& plan) {
  return form_of(p, row_of(plan.transport).by_workers());
}

/// Rows that the busiest rank sums.
Index summed_rows(const Problem& p, SumForm form) {
  const auto borders = borders_of(p);
  return form == SumForm::all_rows ? p.m : split_of(p, borders).max_rows();
}

/// The problem with the largest m that is pushed.
Problem most_pushed(Problem p) {
  p.rows.clear();
  p.m = std::min(p.m, std::max<Index>(1, kMostPushedBytes / row_bytes(p)));
  return p;
}

/// At most this many bytes of a slot hold what peers push; rounding of units included.
Index place_bytes(const Problem& p, int shots, Index unit_bytes) {
  const Index summed = summed_rows(p, form_of(p, shots == 2));
  const Index units = summed * row_bytes(p) / schedule::kUnitBytes + kMostChunk;
  return (p.ranks - 1) * shots * units * unit_bytes;
}

/// Whether the slot has room: very uneven shards need more of it than even ones.
bool may_push(const Problem& p, int shots) {
  if (shots == 2 && (row_of(p.op).scatters() || p.ranks == 1)) return false;
  Problem even = p;
  even.rows.clear();
  return partial_bytes(p) <= kMostPushedBytes &&
         summed_rows(p, SumForm::own_rows) <= summed_rows(even, SumForm::own_rows);
}

/// All plans of transport push, without the GEMM: lines where also a share of the device, whose SMs
/// take fewer CTAs, has room for them.
std::vector<UnfusedSumWay> pushes_of(const Problem& p, const CollectiveMachine& machine) {
  std::vector<UnfusedSumWay> all;
  const CollectiveCall call = pushed_sum(p, 0);
  CollectiveMachine share = machine;
  share.workers = share_places(machine.workers);
  share.shared = true;
  for (const int shots : {1, 2})
    for (const bool lines : {true, false}) {
      if (!may_push(p, shots) || (lines && !may_be_lines(call, share, shots))) continue;
      UnfusedSumWay way{{}, Transport::push};
      way.shots = shots;
      way.lines = lines;
      way.predicted_us = pushed_plan(way, call, machine).predicted_us;
      all.push_back(way);
    }
  return all;
}

}  // namespace

int tiles_of(const UnfusedSumWay& plan, const Problem& p) {
  return work_of(plan.gemm, {p.m, p.n.front(), p.k, p.dtype}).order.tiles();
}

double reduce_us(const Problem& p, const UnfusedSumWay& plan, const Hardware& h) {
  if (row_of(plan.transport).pushes()) return plan.predicted_us - plan.gemm.predicted_us;
  const SumForm form = form_of(p, plan);
  const auto bytes = static_cast<double>(summed_rows(p, form) * row_bytes(p) * (p.ranks - 1));
  const double shot = sent_us(h, bytes);
  if (form != SumForm::shared_rows) return h.call_us + h.flag_us + shot;
  // Ranks read terms while others store sums.
  return h.call_us + 2 * h.flag_us + us_at(bytes, h.fetch_gbps) + shot;
}

int reduce_ctas(const UnfusedSumWay& plan) {
  const GemmTile& t = plan.gemm.tile;
  return std::max(1, plan.gemm.workers * t.cluster() / t.per_sm);
}

std::vector<UnfusedSumWay> gemm_reduce_candidates(const Problem& p, const GemmMachine& machine) {
  require_sum(p);
  require(p.m > 0, "{}: m: got 0, expected at least 1 row to plan for", name_of(p.op));
  std::vector<UnfusedSumWay> plans;
  const bool cublas = machine.cublas && !machine.shared;  // it takes all SMs
  const bool faster = p.m >= kCublasRows.begin && p.m < kCublasRows.end;
  const auto put = [&](UnfusedSumWay plan, bool fastest) {
    plans.push_back(plan);
    if (!cublas || !fastest) return;
    const double part = faster && plan.gemm.tile.cluster() > 1 ? kCublasTime : 1;
    const double less_us = (1 - part) * plan.gemm.predicted_us;
    plan.gemm.predicted_us -= less_us;
    plan.predicted_us -= less_us;
    while (++plan.cublas <= kCublasAlgorithms) plans.push_back(plan);
  };
  const auto pushes =
      pushes_of(p, {.workers = machine.multiprocessors, .architecture = machine.architecture});
  const std::vector<GemmPlan> gemms = gemm_candidates({p.m, p.n.front(), p.k, p.dtype}, machine);
  for (const GemmPlan& gemm : gemms) {
    for (const Transport transport : {Transport::pull, Transport::store}) {
      if (row_of(transport).by_workers() && row_of(p.op).scatters()) continue;
      UnfusedSumWay plan{gemm, transport};
      plan.chunk_rows =
          ceil_div(summed_rows(p, form_of(p, plan)), kRounds * machine.multiprocessors);
      plan.predicted_us = gemm.predicted_us + reduce_us(p, plan, hardware_of(machine));
      put(plan, &gemm == &gemms.front());
    }
    for (UnfusedSumWay push : pushes) {
      push.gemm = gemm;
      push.predicted_us += gemm.predicted_us;
      put(push, &gemm == &gemms.front());
    }
  }
  std::ranges::stable_sort(plans, {}, &UnfusedSumWay::predicted_us);
  return plans;
}

schedule::ReduceRows reduce_rows_schedule(const Problem& p, const UnfusedSumWay& plan, int rank) {
  const auto borders = borders_of(p);
  const SumForm form = form_of(p, plan);
  const Index row_units = row_bytes(p) / 16;
  const int workers = reduce_ctas(plan);
  Index chunk = schedule::chunk_of_rows(plan.chunk_rows, row_units);
  if (form == SumForm::shared_rows)  // others have no flag to wait for, and gain nothing
    chunk = schedule::even_chunk(summed_rows(p, form) * row_units, chunk, workers);
  return schedule::make_reduce_rows(split_of(p, borders), rank, form, row_units, chunk, workers);
}

CollectiveCall pushed_sum(const Problem& p, int rank) {
  const auto all = static_cast<std::size_t>(p.ranks);
  const bool scatters = row_of(p.op).scatters();
  CollectiveCall c{scatters ? Collective::reduce_scatter : Collective::all_reduce,
                   Reduction::sum,
                   item_of(p.dtype),
                   rank,
                   p.ranks,
                   std::vector<Parcel>(all, {0, partial_bytes(p)}),
                   std::vector<Parcel>(all, {0, partial_bytes(p)}),
                   {p.m * p.n.front()}};
  if (!scatters) return c;
  const auto borders = borders_of(p);
  const schedule::RowSplit split = split_of(p, borders);
  c.counts.clear();
  for (int q = 0; q < p.ranks; ++q) {
    const schedule::RowRange rows = split.shard(q);
    c.sends[static_cast<std::size_t>(q)] = {rows.begin * row_bytes(p), rows.size() * row_bytes(p)};
    c.counts.push_back(rows.size() * p.n.front());
  }
  c.takes.assign(all, {0, c.sends[static_cast<std::size_t>(rank)].bytes});
  return c;
}

CollectivePlan pushed_plan(const UnfusedSumWay& way, const CollectiveCall& call,
                           CollectiveMachine machine) {
  machine.staged_bytes = kMostPushedBytes;
  CollectiveOptions o;
  o.lines = way.lines;
  if (row_of(call.collective).shares) o.shots = way.shots;
  return plan_collective(call, machine, o, false);
}

std::int64_t partial_bytes(const Problem& p) { return p.m * row_bytes(p); }

std::int64_t gemm_reduce_staging_bytes(const Problem& p) {
  require_sum(p);
  const Problem pushed = most_pushed(p);
  Index places = 0;
  for (const int shots : {1, 2})
    places = std::max(places, place_bytes(pushed, shots, schedule::kRing * schedule::kUnitBytes));
  return std::max(partial_bytes(p), partial_bytes(pushed) + std::min(places, kMostPushedBytes));
}

std::int64_t gemm_reduce_line_bytes(const Problem& p) {
  const Problem pushed = most_pushed(p);
  return word_bytes(p.ranks) +
         std::min(kLineBytes, std::max(place_bytes(pushed, 1, kBytesOfLines),
                                       place_bytes(pushed, 2, kBytesOfLines)));
}

}  // namespace tilelace::plan
