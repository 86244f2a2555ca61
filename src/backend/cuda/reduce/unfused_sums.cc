// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/reduce/unfused_sums.h"

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/trace.h"
#include "backend/cuda/gemm/gemm_call.h"
#include "backend/cuda/gemm/gemm_launch.h"
#include "backend/cuda/reduce/push_rows.h"
#include "backend/cuda/reduce/reduce_rows.h"
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

/// What sums of both kinds are told.
template <class Sum>
void fill_sum(Sum& sum, const OpCall& call, int rank) {
  const Problem& p = call.problem;
  sum.bias = static_cast<const std::byte*>(call.bias());
  sum.out = static_cast<std::byte*>(call.out());
  sum.row_units = static_cast<std::int32_t>(row_bytes(p) / 16);
  sum.out_begin = row_of(p.op).scatters() ? sum.schedule.rows[rank].begin : 0;
  sum.dtype = p.dtype;
  sum.activation = p.activation;
  sum.residual = static_cast<const std::byte*>(call.tensors.residual.data);
}

}  // namespace

const std::byte* UnfusedSums::enqueue_partial(const OpCall& call, const plan::UnfusedSumWay& plan,
                                              unsigned slot) {
  if (!call.multiplies()) return static_cast<const std::byte*>(call.tensors.input.data);
  const Problem& p = call.problem;
  std::byte* const partial = calls_.memory().local() + calls_.data_at(slot);
  GemmCall(plan.gemm, {p.m, p.n.front(), p.k, p.dtype}, call.product_into(partial),
           calls_.scratch())
      .launch(call.stream());
  return partial;
}

void UnfusedSums::run(const OpCall& call, const plan::UnfusedSumWay& asked) {
  plan::UnfusedSumWay plan = asked;
  plan.gemm = calls_.fit(asked.gemm);
  row_of(plan.transport).pushes() ? run_pushed(call, plan) : run_pulled(call, plan);
}

void UnfusedSums::run_pulled(const OpCall& call, const plan::UnfusedSumWay& plan) {
  const Problem& p = call.problem;
  const int rank = calls_.group().rank();
  SumRows sum;
  sum.schedule = plan::reduce_rows_schedule(p, plan, rank);
  sum.schedule.workers = calls_.fit_ctas(sum.schedule.workers);
  calls_.require_room(name_of(p.op), {static_cast<std::size_t>(sum.schedule.num_flags()),
                                      static_cast<std::size_t>(plan::pulled_bytes(p))});
  const unsigned slot = calls_.begin_call(name_of(p.op), p.op, call.stream());
  const std::size_t data = calls_.data_at(slot);
  if (!call.multiplies()) enqueue_given(sum.schedule, call, calls_.memory().local() + data);
  sum.own = enqueue_partial(call, plan, slot);
  sum.call = calls_.params(slot, call.hash, p.op);
  sum.partials = data;
  fill_sum(sum, call, rank);
  const Start start = calls_.start(sum.schedule.workers, call.multiplies());
  check(enqueue_sum(sum, start, call.stream()), "the sum of partials");
}

void UnfusedSums::run_pushed(const OpCall& call, const plan::UnfusedSumWay& plan) {
  const Problem& p = call.problem;
  const int rank = calls_.group().rank();
  const comm::DeviceMemory& memory = calls_.memory();
  PushSum sum;
  sum.schedule = plan::push_rows_schedule(p, plan.shots, rank, calls_.multiprocessors());
  sum.schedule.workers = calls_.fit_ctas(sum.schedule.workers);
  require(sum.schedule.rounds() <= schedule::kMaxPushRounds,
          "{}: rounds of a CTA, got {}, expected 1 to {}", name_of(p.op), sum.schedule.rounds(),
          schedule::kMaxPushRounds);
  sum.term_pitch = static_cast<std::size_t>(plan::pushed_pitch(p, plan.shots));
  const auto partial_bytes = static_cast<std::size_t>(p.m * row_bytes(p));
  calls_.require_room(name_of(p.op),
                      {static_cast<std::size_t>(sum.schedule.num_flags()),
                       partial_bytes + static_cast<std::size_t>(p.ranks - 1) * sum.term_pitch});
  const unsigned slot = calls_.begin_call(name_of(p.op), p.op, call.stream());
  sum.own = enqueue_partial(call, plan, slot);
  sum.call = calls_.params(slot, call.hash, p.op);
  sum.terms = calls_.data_at(slot) + partial_bytes;
  // Sums take the place of partials that have been read.
  sum.sums = memory.base() + calls_.data_at(slot);
  sum.sums_stride = memory.stride();
  fill_sum(sum, call, rank);
  TILELACE_TRACE_TO(sum, "sum");
  const Start start = calls_.start(sum.schedule.workers, call.multiplies());
  check(enqueue_push_sum(sum, start, call.stream()), "the sum of partials");
}

}  // namespace tilelace::cuda
