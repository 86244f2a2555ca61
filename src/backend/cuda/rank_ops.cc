// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/rank_ops.h"

#include "core/check.h"

namespace tilelace::cuda {
namespace {

SlotNeeds needs_of(const Problem& p) {
  switch (p.op) {
    case Op::gemm_rs: return GemmRs::needs(p).with(GemmReduce::needs(p));
    case Op::gemm_ar: return GemmAr::needs(p).with(GemmReduce::needs(p)).with(GemmSums::needs(p));
    default: return AgGemm::needs(p);
  }
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

}  // namespace tilelace::cuda
