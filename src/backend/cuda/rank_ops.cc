// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/rank_ops.h"

#include "core/check.h"
#include "plan/cuda.h"

namespace tilelace::cuda {
namespace {

SlotNeeds needs_of(const Problem& p) {
  switch (p.op) {
    case Op::gemm_rs: return GemmRs::needs(p).with(GemmReduce::needs(p));
    case Op::gemm_ar: return GemmAr::needs(p).with(GemmReduce::needs(p)).with(GemmSums::needs(p));
    case Op::ag_gemm: return AgGemm::needs(p);
  }
  raise(ErrorKind::usage, "prepare: op, got one that names nothing, expected one of ours");
}

}  // namespace

SlotNeeds RankOps::needs_of(const std::vector<Problem>& problems, int ranks,
                            const RankShare& share) {
  SlotNeeds all;
  for (const Problem& p : problems) {
    require(p.ranks == ranks, "{}: got a problem of {} ranks, expected {}", name_of(p.op), p.ranks,
            ranks);
    all = all.with(cuda::needs_of(p));
    if (share.hands && p.op == Op::gemm_rs) all = all.with(GemmHand::needs(p));
  }
  return all;
}

RankOps::RankOps(comm::Group& group, int device, const std::vector<Problem>& problems,
                 double timeout_s, const RankShare& share)
    : RankOps(group, device, needs_of(problems, group.ranks(), share), timeout_s, share) {}

RankOps::RankOps(comm::Group& group, int device, const SlotNeeds& needs, double timeout_s,
                 const RankShare& share)
    : calls(group, device, needs, timeout_s, share),
      ag_gemm(calls, share.nccl),
      gemm_rs(calls),
      gemm_ar(calls),
      gemm_reduce(calls),
      gemm_hand(calls),
      gemm_sums(calls) {}

void RankOps::run(const Problem& p, const Plan& plan, const OpTensors& t, cudaStream_t stream) {
  const auto with_weights = [&](auto kernels) {
    kernels.gemm.weights_wait = t.weights_wait;
    return kernels;
  };
  if (p.op == Op::ag_gemm)
    return ag_gemm.run(p, with_weights(plan::ag_gemm_plan_of(plan)), t, stream);
  const auto sum = [&](auto& op, const auto& kernels, const auto&... reachable) {
    op.run(p, with_weights(kernels),
           {t.a, t.weights.empty() ? nullptr : t.weights.front(),
            t.biases.empty() ? nullptr : t.biases.front(), t.outs.at(0), t.residual},
           stream, reachable...);
  };
  if (p.m == 0) return sum(gemm_reduce, plan::gemm_reduce_plan_of(plan));
  if (plan::keeps_partials(plan)) {
    const auto kernels = plan::gemm_sums_plan_of(plan);
    const void* const reached = kernels.by_switch ? t.reachable.multicast : t.reachable.base;
    return sum(gemm_sums, reached != nullptr ? plan::directly(kernels) : kernels, t.reachable);
  }
  if (plan.path == Path::fused && p.op == Op::gemm_ar) {
    auto kernels = plan::gemm_ar_plan_of(plan);
    kernels.direct = t.reachable.base != nullptr;
    return sum(gemm_ar, kernels, t.reachable);
  }
  if (plan.path == Path::fused) return sum(gemm_rs, plan::gemm_rs_plan_of(plan));
  if (plan::way_of(plan)) return sum(gemm_hand, plan::gemm_hand_plan_of(plan));
  sum(gemm_reduce, plan::gemm_reduce_plan_of(plan));
}

}  // namespace tilelace::cuda
