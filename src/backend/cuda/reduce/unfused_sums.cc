// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/reduce/unfused_sums.h"

#include <algorithm>
#include <iterator>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/collectives/exchange_call.h"
#include "backend/cuda/gemm/gemm_call.h"
#include "backend/cuda/gemm/gemm_launch.h"
#include "backend/cuda/reduce/reduce_rows.h"
#include "core/check.h"
#include "plan/base/problem.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace::cuda {
namespace {

using plan::row_bytes;
using schedule::Index;

/// A given partial into the slot, where peers find it. Own rows are read where they are.
void enqueue_given(const schedule::ReduceRows& s, const OpCall& call, std::byte* slot) {
  const Problem& p = call.problem;
  const schedule::RowRange own =
      row_of(p.op).shares && !s.share ? schedule::RowRange{} : s.rows[s.rank];
  const auto copy = [&](Index begin, Index end) {
    if (begin == end || p.ranks == 1) return;
    check(cudaMemcpyAsync(
              slot + begin, static_cast<const std::byte*>(call.tensors.input.data) + begin,
              static_cast<std::size_t>(end - begin), cudaMemcpyDeviceToDevice, call.stream()),
          "the partial sums that were given");
  };
  copy(0, 16 * own.begin);
  copy(16 * own.end, p.m * row_bytes(p));
}

/// Sets what sums get before they are rounded; `first`: this rank's first unit of `out`.
void finish_as(ProductSum& sum, const OpCall& call, Index first) {
  const Problem& p = call.problem;
  sum.bias = static_cast<const uint4*>(call.bias());
  sum.row_units = static_cast<std::uint32_t>(row_bytes(p) / 16);
  sum.first_column = static_cast<std::uint32_t>(first % sum.row_units);
  if (call.tensors.residual.data != nullptr)
    sum.residual = static_cast<const uint4*>(call.tensors.residual.data) + first;
  sum.activation = p.activation;
  sum.dtype = p.dtype;
}

}  // namespace

const std::byte* UnfusedSums::enqueue_partial(const OpCall& call, const plan::UnfusedSumWay& plan,
                                              const plan::GemmPlan& gemm, unsigned slot) {
  if (!call.multiplies()) return static_cast<const std::byte*>(call.tensors.input.data);
  const Problem& p = call.problem;
  std::byte* const partial = calls_.memory().local() + calls_.data_at(slot);
  const plan::GemmProblem product{p.m, p.n.front(), p.k, p.dtype};
  const GemmTensors tensors = call.product_into(partial);
  if (plan.cublas > 0)
    cublas_.launch(product, tensors, plan.cublas, call.stream());
  else
    GemmCall(gemm, product, tensors, calls_.scratch()).launch(call.stream());
  return partial;
}

void UnfusedSums::run(const OpCall& call, const plan::UnfusedSumWay& plan) {
  require(plan.cublas == 0 || !calls_.shares_device(),
          "{}: a plan with cublas needs the whole GPU, but max_workers leaves {} multiprocessors",
          name_of(call.problem.op), calls_.multiprocessors());
  const plan::GemmPlan gemm = calls_.fit(plan.gemm);
  row_of(plan.transport).pushes() ? run_pushed(call, plan, gemm) : run_pulled(call, plan, gemm);
}

void UnfusedSums::run_pulled(const OpCall& call, const plan::UnfusedSumWay& plan,
                             const plan::GemmPlan& gemm) {
  const Problem& p = call.problem;
  const int rank = calls_.group().rank();
  SumRows sum;
  sum.schedule = plan::reduce_rows_schedule(p, plan, rank);
  sum.schedule.workers = calls_.fit_ctas(sum.schedule.workers);
  calls_.require_room(name_of(p.op), {static_cast<std::size_t>(sum.schedule.num_flags()),
                                      static_cast<std::size_t>(plan::partial_bytes(p))});
  const unsigned slot = calls_.begin_call(name_of(p.op), p.op, call.stream());
  const std::size_t data = calls_.data_at(slot);
  if (!call.multiplies()) enqueue_given(sum.schedule, call, calls_.memory().local() + data);
  sum.own = enqueue_partial(call, plan, gemm, slot);
  sum.call = calls_.params(slot, call.hash, p.op);
  sum.partials = data;
  sum.bias = static_cast<const std::byte*>(call.bias());
  sum.out = static_cast<std::byte*>(call.out());
  sum.row_units = static_cast<std::int32_t>(row_bytes(p) / 16);
  sum.out_begin = row_of(p.op).scatters() ? sum.schedule.rows[rank].begin : 0;
  sum.dtype = p.dtype;
  sum.activation = p.activation;
  sum.residual = static_cast<const std::byte*>(call.tensors.residual.data);
  const Start start = calls_.start(sum.schedule.workers, call.multiplies());
  check(enqueue_sum(sum, start, call.stream()), "the sum of partials");
}

void UnfusedSums::run_pushed(const OpCall& call, const plan::UnfusedSumWay& plan,
                             const plan::GemmPlan& gemm) {
  const Problem& p = call.problem;
  const CallName name(name_of(p.op), p.op);
  const plan::CollectiveCall sum = plan::pushed_sum(p, calls_.group().rank());
  const plan::CollectivePlan how =
      plan::pushed_plan(plan, sum,
                        {.workers = calls_.fit_ctas(calls_.multiprocessors()),
                         .architecture = gemm.architecture,
                         .shared = calls_.shares_device()});
  const auto partial = static_cast<std::size_t>(plan::partial_bytes(p));
  const PlacedParcels placed = plan::place_exchange<schedule::kMaxGpuRanks>(sum, how, 0);
  SlotNeeds needs = slot_needs_of(placed.schedule, how.lines);
  needs.bytes += partial;
  calls_.require_room(name.text, needs);
  const unsigned slot = calls_.begin_call(name, call.stream());
  ProductSum to{exchange_params(sum, placed, enqueue_partial(call, plan, gemm, slot), call.out())};
  set_hash(to.exchange, call.hash);
  place_in_slot(to.exchange, calls_, slot, how.lines, calls_.data_at(slot) + partial, name);
  finish_as(to, call, placed.takes[sum.rank].at / schedule::kUnitBytes);
  const Start start = calls_.start(exchange_ctas(how), true);
  check(how.lines ? enqueue_lines(to, start, call.stream())
                  : enqueue_chunks(to, start, call.stream()),
        "the sum of partials");
}

}  // namespace tilelace::cuda
