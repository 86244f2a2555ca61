// SPDX-License-Identifier: Apache-2.0
#include "ops/op_run.h"

#include "core/check.h"

namespace tilelace::gpu_test {

std::unique_ptr<cuda::RankOps> make_ops(comm::Group& group, int device,
                                        const std::vector<Problem>& problems, double timeout_s,
                                        const cuda::RankShare& share) {
  require(!problems.empty(), "problems: got none, expected at least one");
  return std::make_unique<cuda::RankOps>(group, device, problems, timeout_s, share);
}

void run_op(cuda::RankOps& ops, const Problem& problem, const OpPlan& plan, const OpTensors& t,
            cudaStream_t stream) {
  if (const auto* gather = std::get_if<plan::AgGemmPlan>(&plan))
    return ops.ag_gemm.run(problem, *gather, t, stream);
  const void* const bias = t.biases.empty() ? nullptr : t.biases.front();
  if (const auto* fused = std::get_if<plan::GemmRsPlan>(&plan))
    return ops.gemm_rs.run(problem, *fused, {t.a, t.weights.at(0), bias, t.outs.at(0), t.residual},
                           stream);
  if (const auto* fused = std::get_if<plan::GemmArPlan>(&plan))
    return ops.gemm_ar.run(problem, *fused, {t.a, t.weights.at(0), bias, t.outs.at(0), t.residual},
                           stream, t.reachable);
  if (const auto* hand = std::get_if<plan::GemmHandPlan>(&plan))
    return ops.gemm_hand.run(problem, *hand, {t.a, t.weights.at(0), bias, t.outs.at(0), t.residual},
                             stream);
  if (const auto* by_switch = std::get_if<plan::GemmSumsPlan>(&plan))
    return ops.gemm_sums.run(problem, *by_switch,
                             {t.a, t.weights.at(0), bias, t.outs.at(0), t.residual}, stream,
                             t.reachable);
  ops.gemm_reduce.run(problem, std::get<plan::GemmReducePlan>(plan),
                      {t.a, t.weights.at(0), bias, t.outs.at(0), t.residual}, stream);
}

}  // namespace tilelace::gpu_test
