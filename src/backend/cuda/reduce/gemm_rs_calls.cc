// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/reduce/gemm_rs_calls.h"

#include "backend/cuda/kernels/ops/gemm_rs.h"
#include "plan/base/problem.h"
#include "schedule/make_reduce_order.h"

namespace tilelace::cuda {

namespace {

schedule::ReduceOrder order_of(const GemmRsParams& /*params*/, const schedule::GemmReduce& s,
                               const schedule::GemmOrder& walk, const plan::GemmRsWay& plan) {
  const plan::GemmTile& tile = plan.gemm.tile;
  return schedule::make_reduce_order(s, plan::over_tokens(walk, tile), tile.worker_tokens(),
                                     plan.apart == 1);
}
schedule::PairOrder order_of(const GemmRsPairParams& /*params*/, const schedule::GemmReduce& s,
                             const schedule::GemmOrder& walk, const plan::GemmRsWay& plan) {
  return schedule::make_pair_order(s, walk, plan.gemm.tile.rows());
}

/// Where a section ends in the middle of a slice.
template <class Params>
void fill_tails(Params& params, const GemmKernel& kernel, const Problem& p, const void* x) {
  const schedule::ReduceOrder& order = params.work.order;
  for (int s = 0; s < order.count; ++s)
    params.tail[s] = tail_map(kernel, {x, p.m, p.k}, order.end(s) - order.begin(s), p.dtype);
}

}  // namespace

void GemmRsCalls::run(const OpCall& call, const plan::GemmRsWay& asked) {
  plan::GemmRsWay plan = asked;
  plan.gemm = calls_.fit(asked.gemm);
  plan.pairs ? enqueue<GemmRsPairParams>(call, plan) : enqueue<GemmRsParams>(call, plan);
}

template <class Params>
void GemmRsCalls::enqueue(const OpCall& call, const plan::GemmRsWay& plan) {
  const Problem& p = call.problem;
  const GemmKernel& kernel = kernel_of(plan.gemm, p.dtype);
  const ReduceKernel given{kernel, plan.pairs};
  const void* const function = kernel.of(plan.pairs ? GemmUse::gemm_rs_pairs : GemmUse::gemm_rs);
  require(function != nullptr, "gemm_rs: plan {}: the tile has no kernel that adds partial sums{}",
          plan::describe(plan.gemm), plan.pairs ? " of two shards" : "");
  const int rank = calls_.group().rank();
  const auto borders = plan::borders_of(p);
  const auto schedule = plan::reduce_schedule(p, call.plan, rank, borders);
  Params params{};
  fill_reduce(params, calls_, call, plan.gemm, given);
  const auto work = plan::work_of(plan.gemm, {p.m, p.n.front(), p.k, p.dtype});
  params.work = schedule::make_gemm_work(order_of(params, schedule, work.order, plan), work.workers,
                                         work.k_steps, 0);
  fill_tails(params, kernel, p, call.tensors.input.data);
  const schedule::Index own = schedule.split.shard(rank).size();
  params.own_rows = static_cast<int>(own);
  if (own > 0)
    fill_outputs(params.out, params.out_remainder, kernel, {call.out(), own, p.n.front()}, p.dtype);
  calls_.require_room("gemm_rs", partial_needs(params.work.order.num_partials(), given));
  const GemmGrid grid = fill_grid(params, params.work, kernel, plan.gemm);
  // Everything is checked before the call is counted.
  set_slot(params, calls_, calls_.begin_call("gemm_rs", p.op, call.stream()));
  launch_gemm(kernel, function, &params, grid, call.stream(), plan.gemm.early_weights);
}

}  // namespace tilelace::cuda
