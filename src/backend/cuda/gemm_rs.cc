// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm_rs.h"

#include "plan/problem.h"

namespace tilelace::cuda {

SlotNeeds GemmRs::needs(const Problem& p, DType partials) {
  return {plan::kMaxPartialFlags,
          static_cast<std::size_t>(plan::gemm_rs_staging_bytes(p, partials))};
}

void GemmRs::run(const Problem& p, const plan::GemmRsPlan& asked, const ReduceOperands& tensors,
                 cudaStream_t stream) {
  if (p.m == 0) return calls_.admit("gemm_rs", plan::agreement_hash(p, {}), Op::gemm_rs, stream);
  plan::GemmRsPlan plan = asked;
  plan.gemm = calls_.fit(asked.gemm);
  const GemmKernel& kernel = kernel_of(plan.gemm, p.dtype);
  require(p.op == Op::gemm_rs, "gemm_rs: got {}", name_of(p.op));
  const ReduceKernel given{kernel, asked.wide};
  const void* const function =
      asked.wide ? gemm_wide(kernel.tile.name, p.dtype).reducing : kernel.reducing;
  require(function != nullptr, "gemm_rs: plan {}, expected a tile that adds partial sums{}",
          plan::describe(plan.gemm), asked.wide ? " in fp32" : "");
  const Plan agreed = agreed_reduce_plan(p, given);
  const int rank = calls_.group().rank();
  const auto borders = plan::borders_of(p);
  const auto schedule = plan::gemm_reduce_schedule(p, agreed, rank, borders);
  GemmRsParams params{};
  fill_reduce(params, calls_, p, reduce_hash(p, agreed, given), plan.gemm, tensors, given);
  const auto work = plan::work_of(plan.gemm, {p.m, p.n.front(), p.k, p.dtype});
  params.work = schedule::make_gemm_work(
      schedule::make_reduce_order(schedule, work.order, kernel.tile.worker_rows(), plan.together),
      work.workers, work.k_steps, 0);
  const schedule::Index own = schedule.split.shard(rank).size();
  params.own_rows = static_cast<int>(own);
  if (own > 0)
    fill_outputs(params.out, params.out_rest, kernel, {tensors.out, own, p.n.front()}, p.dtype);
  calls_.require_room("gemm_rs", partial_needs(params.work.order.num_partials(), given));
  const int ctas = fill_grid(params, params.work, kernel, plan.gemm);
  calls_.require_place("gemm_rs", ctas, 0);
  // Everything is checked before the call is counted.
  set_slot(params, calls_, calls_.begin_call("gemm_rs", Op::gemm_rs, stream));
  launch_gemm(kernel, function, &params, ctas, stream, plan.gemm.early_weights);
}

}  // namespace tilelace::cuda
