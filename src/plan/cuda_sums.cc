// SPDX-License-Identifier: Apache-2.0
// The public plan of a gemm_ar whose ranks keep their partials: by the switch only where it is
// asked for.
#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"
#include "plan/cuda.h"
#include "plan/cuda_parts.h"

namespace tilelace::plan {
namespace {

std::string_view missing(Multicast multicast) {
  switch (multicast) {
    case Multicast::not_asked: return "a communicator made without the option multicast";
    case Multicast::not_allowed: return "no TILELACE_MULTICAST=1 in the environment";
    case Multicast::not_supported:
      return "a device whose CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED is 0";
    default: return "all of it";
  }
}

void require_sums_options(const Problem& p, const Machine& machine, const PlanOptions& o) {
  const auto op = name_of(p.op);
  require(p.op == Op::gemm_ar,
          "{}: transport on GPUs, got multimem, which is for gemm_ar, expected another", op);
  require(machine.multicast == Multicast::usable,
          "{}: transport multimem needs a communicator with multicast on devices that support it, "
          "got {}",
          op, missing(machine.multicast));
  require(o.path.value_or(Path::fused) == Path::fused,
          "{}: path of transport multimem, got {}, expected fused", op,
          name_of(o.path.value_or(Path::fused)));
  require(!o.chunk_rows, "{}: chunk_rows of transport multimem, got {}, expected none", op,
          o.chunk_rows.value_or(0));
  require(!o.straddle.value_or(false), "{}: straddle on GPUs, got 1, expected 0", op);
  require(o.partials.value_or(p.dtype) == p.dtype,
          "{}: partials of transport multimem, got {}, expected the operands' type, {}", op,
          name_of(o.partials.value_or(p.dtype)), name_of(p.dtype));
}

std::string kind_of(const GemmSumsPlan& /*plan*/) { return "fused multimem"; }

}  // namespace

Plan make_cuda_sums_plan(const Problem& p, const Machine& machine, const PlanOptions& o) {
  require_sums_options(p, machine, o);
  if (p.m == 0) {
    Plan plan = empty_plan(p, o, Path::fused, Transport::multimem);
    plan.partials = p.dtype;
    tell_sum_staging(p, plan);
    return plan;
  }
  // Where out is symmetric memory the call takes the direct way of the same plan.
  std::vector<GemmSumsPlan> all = gemm_multimem_candidates(p, gemm_machine(machine));
  std::erase_if(all, [&](const GemmSumsPlan& c) { return c.direct || !wanted(c.gemm.tile, o); });
  require(!all.empty(), "{}: tile of transport multimem, got {}x{}, expected a compiled one",
          name_of(p.op), o.tile_m.value_or(0), o.tile_n.value_or(0));
  const GemmSumsPlan& best = all.front();
  const int tiles = work_of(best.gemm, {p.m, p.n.front(), p.k, p.dtype}).order.tiles();
  Plan plan = plan_of(p, best.gemm, tiles);
  plan.path = Path::fused;
  plan.transport = Transport::multimem;
  plan.chunk_rows = best.gemm.tile.worker_tokens();
  plan.reason = reason_of(o, all.size(), best.predicted_us) +
                fmt::format(
                    " (GEMM {:.1f}, never timed); sums in the switch's order: the same on "
                    "all ranks, not those of other transports; results straight into out "
                    "where that is symmetric memory on all ranks, else by staging",
                    best.gemm.predicted_us);
  plan.rejected = rejected_of(all, kind_of);
  tell_sum_staging(p, plan);
  return plan;
}

bool keeps_partials(const Plan& plan) {
  return plan.op == Op::gemm_ar &&
         (plan.transport == Transport::multimem ||
          (plan.path == Path::fused && plan.transport == Transport::pull));
}

GemmSumsPlan gemm_sums_plan_of(const Plan& plan) {
  const bool by_switch = plan.transport == Transport::multimem;
  return {gemm_plan_of(plan), by_switch ? 2 : plan.kernel.shots, false, by_switch};
}

}  // namespace tilelace::plan
