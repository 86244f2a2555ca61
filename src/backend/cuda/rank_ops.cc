// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/rank_ops.h"

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/collectives/exchange.h"
#include "backend/cuda/gather/gather_rows.h"
#include "backend/cuda/reduce/copied_rows.h"
#include "backend/cuda/reduce/reduce_rows.h"
#include "core/check.h"
#include "plan/gpu/kernel_choice.h"
#include "plan/gpu/staging.h"
#include "plan/words/agreement.h"

namespace tilelace::cuda {
namespace {

/// Whether results go straight to where peers reach them.
template <class Way>
bool is_direct(const Way& /*way*/, const ReachableTensor& /*out*/) {
  return false;
}
bool is_direct(const plan::GemmArWay& /*way*/, const ReachableTensor& out) {
  return out.base != nullptr;
}
bool is_direct(const plan::KeptPartialsWay& way, const ReachableTensor& out) {
  return (way.by_switch ? out.multicast : out.base) != nullptr;
}

void load_kernels(int architecture) {
  load_gemm_kernels(architecture);
  for (const cudaError_t status : {load_gather_rows(), load_sum_rows(), load_copied_rows(),
                                   load_chunks(), load_lines(), load_direct()})
    check(status, "loading kernels");
}

}  // namespace

SlotNeeds RankOps::needs_of(const std::vector<Problem>& problems, int ranks,
                            const RankShare& share) {
  SlotNeeds all;
  for (const Problem& p : problems) {
    require(p.ranks == ranks, "{}: ranks: got {}, expected the group's {}", name_of(p.op), p.ranks,
            ranks);
    all = all.with(plan::slot_needs(p, share.architecture, share.copied));
  }
  return all;
}

RankOps::RankOps(comm::Group& group, int device, const std::vector<Problem>& problems,
                 double timeout_s, const RankShare& share)
    : RankOps(group, device, needs_of(problems, group.ranks(), share), timeout_s, share) {}

RankOps::RankOps(comm::Group& group, int device, const SlotNeeds& needs, double timeout_s,
                 const RankShare& share)
    : calls(group, device, needs, timeout_s, share, load_kernels),
      gather_(calls, share.nccl),
      scatter_(calls),
      share_(calls),
      kept_(calls),
      behind_(calls),
      copied_(calls) {}

void RankOps::run(const Problem& p, const Plan& plan, const CallTensors& t) {
  OpCall call{p, plan, t};
  plan::CallKind kind{.collective = !call.multiplies()};
  if (p.m == 0)
    return calls.admit(name_of(p.op), plan::agreement_hash(p, plan, kind), p.op, call.stream());
  require(plan.kernel != nullptr, "{}: plan: got one for CPU ranks, expected one for GPU ranks",
          name_of(p.op));
  std::visit(
      [&](const auto& way) {
        call.direct = is_direct(way, t.reachable);
        if (call.direct) kind.out = t.reachable.where();
        call.hash = plan::agreement_hash(p, plan, kind);
        enqueue(call, way);
      },
      plan.kernel->way);
}

}  // namespace tilelace::cuda
