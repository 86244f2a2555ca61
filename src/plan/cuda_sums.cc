// SPDX-License-Identifier: Apache-2.0
// The public plan of a gemm_ar whose ranks keep their partials: by the switch only where it is
// asked for.
#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"
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

}  // namespace

Plan make_cuda_sums_plan(const Problem& p, const Machine& machine, const PlanOptions& o) {
  require_sums_options(p, machine, o);
  if (p.m == 0) return empty_plan(p, o, Path::fused, Transport::multimem);
  std::vector<KernelWay> all;
  for (const GemmSumsPlan& c : gemm_multimem_candidates(p, gemm_machine(machine)))
    if (wanted(c.gemm.tile, o)) all.emplace_back(c);
  require(!all.empty(), "{}: tile of transport multimem, got {}x{}, expected a compiled one",
          name_of(p.op), o.tile_m.value_or(0), o.tile_n.value_or(0));
  return best_of(p, all, o,
                 fmt::format(" (GEMM {:.1f}, never timed); sums in the switch's order: the same on "
                             "all ranks, not those of other transports; results straight into out "
                             "where that is symmetric memory on all ranks, else by staging",
                             gemm_of(all.front()).predicted_us));
}

}  // namespace tilelace::plan
