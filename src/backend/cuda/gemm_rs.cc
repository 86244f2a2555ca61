// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm_rs.h"

#include "plan/problem.h"

namespace tilelace::cuda {

SlotNeeds GemmRs::needs(const Problem& p) {
  return {plan::kMaxPartialFlags, static_cast<std::size_t>(plan::gemm_rs_staging_bytes(p))};
}

void GemmRs::run(const Problem& p, const plan::GemmRsPlan& plan, const ReduceOperands& tensors,
                 cudaStream_t stream) {
  if (p.m == 0) return calls_.admit("gemm_rs", plan::agreement_hash(p, {}), Op::gemm_rs, stream);
  const GemmKernel& kernel = kernel_of(plan.gemm, p.dtype);
  require(p.op == Op::gemm_rs, "gemm_rs: got {}", name_of(p.op));
  const Plan agreed = agreed_reduce_plan(Op::gemm_rs, kernel);
  const int rank = calls_.group().rank();
  const auto borders = plan::borders_of(p);
  const auto schedule = plan::gemm_reduce_schedule(p, agreed, rank, borders);
  GemmRsParams params{};
  fill_reduce(params, calls_, p, plan::agreement_hash(p, agreed), plan.gemm, tensors, kernel);
  const auto work = plan::work_of(plan.gemm, {p.m, p.n.front(), p.k, p.dtype});
  params.work = schedule::make_gemm_work(
      schedule::make_reduce_order(schedule, work.order, kernel.tile.worker_rows(), plan.together),
      work.workers, work.k_steps, 0);
  const schedule::Index own = schedule.split.shard(rank).size();
  if (own > 0)
    fill_outputs(params.out, params.out_rest, kernel, {tensors.out, own, p.n.front()}, p.dtype);
  calls_.require_room("gemm_rs", partial_needs(params.work.order.num_partials(), kernel));
  // Everything is checked before the call is counted.
  set_slot(params, calls_, calls_.begin_call("gemm_rs", Op::gemm_rs, stream));
  const int ctas = fill_grid(params, params.work, kernel, plan.gemm);
  launch_gemm(kernel, kernel.reducing, &params, ctas, stream, plan.gemm.early_weights);
}

}  // namespace tilelace::cuda
