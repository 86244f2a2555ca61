// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm_rs.h"

#include "plan/problem.h"

namespace tilelace::cuda {

SlotNeeds GemmRs::needs(const Problem& p) {
  return {plan::kMaxPartialFlags, static_cast<std::size_t>(plan::gemm_rs_staging_bytes(p))};
}

namespace {

const void* function_of(const GemmKernel& kernel, const plan::GemmRsPlan& plan) {
  return plan.pairs ? gemm_pairs(kernel.tile.name, kernel.dtype) : kernel.reducing;
}

template <class Params>
auto order_of(const schedule::GemmReduce& s, const schedule::GemmOrder& walk,
              const plan::GemmRsPlan& plan) {
  const plan::GemmTile& tile = plan.gemm.tile;
  if constexpr (kPairs<Params>)
    return schedule::make_pair_order(s, walk, tile.rows());
  else
    return schedule::make_reduce_order(s, plan::over_tokens(walk, tile), tile.worker_tokens(),
                                       plan.together);
}

/// Where a section ends in the middle of a slice.
void fill_few(GemmRsAcrossParams& params, const GemmKernel& kernel, const Problem& p,
              const void* x) {
  const schedule::ReduceOrder& order = params.work.order;
  for (int s = 0; s < order.count; ++s)
    params.few[s] = few_map(kernel, {x, p.m, p.k}, order.end(s) - order.begin(s), p.dtype);
}

}  // namespace

void GemmRs::run(const Problem& p, const plan::GemmRsPlan& asked, const ReduceOperands& tensors,
                 cudaStream_t stream) {
  if (p.m == 0) return calls_.admit("gemm_rs", plan::agreement_hash(p, {}), Op::gemm_rs, stream);
  plan::GemmRsPlan plan = asked;
  plan.gemm = calls_.fit(asked.gemm);
  require(p.op == Op::gemm_rs, "gemm_rs: got {}", name_of(p.op));
  require(!plan.pairs || p.ranks % 2 == 0, "gemm_rs: ranks of shards in pairs, got {}, expected {}",
          p.ranks, "an even number");
  if (plan.pairs)
    enqueue<GemmRsPairParams>(p, plan, tensors, stream);
  else if (is_across(plan.gemm.tile))
    enqueue<GemmRsAcrossParams>(p, plan, tensors, stream);
  else
    enqueue<GemmRsParams>(p, plan, tensors, stream);
}

template <class Params>
void GemmRs::enqueue(const Problem& p, const plan::GemmRsPlan& plan, const ReduceOperands& tensors,
                     cudaStream_t stream) {
  const GemmKernel& kernel = kernel_of(plan.gemm, p.dtype);
  const ReduceKernel given{kernel, plan.pairs};
  const void* const function = function_of(kernel, plan);
  require(function != nullptr, "gemm_rs: plan {}, expected a tile that adds partial sums{}",
          plan::describe(plan.gemm), plan.pairs ? " of two shards" : "");
  const Plan agreed = agreed_reduce_plan(p, given);
  const int rank = calls_.group().rank();
  const auto borders = plan::borders_of(p);
  const auto schedule = plan::gemm_reduce_schedule(p, agreed, rank, borders);
  Params params{};
  fill_reduce(params, calls_, p, reduce_hash(p, agreed, given), plan.gemm, tensors, given);
  const auto work = plan::work_of(plan.gemm, {p.m, p.n.front(), p.k, p.dtype});
  params.work = schedule::make_gemm_work(order_of<Params>(schedule, work.order, plan), work.workers,
                                         work.k_steps, 0);
  if constexpr (Params::kClips) fill_few(params, kernel, p, tensors.x);
  const schedule::Index own = schedule.split.shard(rank).size();
  params.own_rows = static_cast<int>(own);
  if (own > 0)
    fill_outputs(params.out, params.out_rest, kernel, {tensors.out, own, p.n.front()}, p.dtype);
  calls_.require_room("gemm_rs", partial_needs(params.work.order.num_partials(), given));
  const GemmGrid grid = fill_grid(params, params.work, kernel, plan.gemm);
  // Everything is checked before the call is counted.
  set_slot(params, calls_, calls_.begin_call("gemm_rs", Op::gemm_rs, stream));
  launch_gemm(kernel, function, &params, grid, stream, plan.gemm.early_weights);
}

}  // namespace tilelace::cuda
