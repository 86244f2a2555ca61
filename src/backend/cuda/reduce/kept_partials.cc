// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/reduce/kept_partials.h"

#include "backend/cuda/kernels/ops/kept_partials.h"
#include "plan/base/problem.h"
#include "plan/base/schedules.h"
#include "schedule/tile_sums.h"

namespace tilelace::cuda {
namespace {

void require_plan(const plan::KeptPartialsWay& plan, const RankCalls& calls, const void* function) {
  require(function != nullptr && plan.gemm.split_tiles == 0,
          "gemm_ar: plan {}: the tile has no kernel that keeps partials, or the plan splits k",
          plan::describe(plan.gemm));
  require(!plan.by_switch || calls.memory().multicast() != nullptr,
          "gemm_ar: transport multimem was not prepared: call prepare with the plan's options");
}

/// The product alone: what comes behind a sum is not for a partial.
void fill_product(KeptPartialsParams& params, const RankCalls& calls, const OpCall& call,
                  const GemmKernel& kernel) {
  const Problem& p = call.problem;
  fill_operands(params, kernel, {p.m, p.n.front(), p.k, p.dtype}, call.product_into(call.out()),
                calls.scratch());
  params.sum_bias = call.bias();
  params.sum_activation = p.activation;
  params.residual = call.tensors.residual.data;
  params.m = static_cast<int>(p.m);
}

void set_places(KeptPartialsParams& params, const RankCalls& calls, unsigned slot,
                const ReachableTensor& direct, void* out) {
  const comm::DeviceMemory& memory = calls.memory();
  params.call.flags = calls.flags_at(slot);
  params.slots = {memory.base(), memory.stride(), memory.multicast()};
  params.partials = calls.data_at(slot);
  params.counts = calls.counts_at(slot);
  params.uses = calls.uses(slot);
  params.results = params.slots;
  params.results_at = params.partials;
  params.delivered = static_cast<std::byte*>(out);
  if (direct.base == nullptr) return;
  params.results = {direct.base, direct.stride, direct.multicast};
  params.results_at = direct.offset;
  params.delivered = nullptr;
}

}  // namespace

void KeptPartials::run(const OpCall& call, const plan::KeptPartialsWay& given) {
  const Problem& p = call.problem;
  plan::KeptPartialsWay plan = given;
  plan.gemm = calls_.fit(given.gemm);
  const GemmKernel& kernel = kernel_of(plan.gemm, p.dtype);
  const void* const function =
      kernel.of(plan.by_switch ? GemmUse::kept_by_switch : GemmUse::kept_by_peers);
  require_plan(plan, calls_, function);
  KeptPartialsParams params{};
  fill_product(params, calls_, call, kernel);
  params.one_shot = plan.shots == 1 && !call.direct;
  params.call = calls_.params(0, call.hash, p.op);
  params.work = plan::work_of(plan.gemm, {p.m, p.n.front(), p.k, p.dtype});
  const int parts = params.work.order.tiles() * kernel.tile.cluster();
  calls_.require_room("gemm_ar", {0, static_cast<std::size_t>(plan::gemm_sums_staging_bytes(p)),
                                  static_cast<std::size_t>(schedule::num_counts(parts))});
  const GemmGrid grid = fill_grid(params, params.work, kernel, plan.gemm);
  const unsigned slot = calls_.begin_call("gemm_ar", p.op, call.stream());
  set_places(params, calls_, slot, call.direct ? call.tensors.reachable : ReachableTensor{},
             call.out());
  fill_outputs(params.out, params.out_remainder, kernel,
               {calls_.memory().local() + params.partials, p.m, p.n.front()}, p.dtype);
  launch_gemm(kernel, function, &params, grid, call.stream(), plan.gemm.early_weights);
}

}  // namespace tilelace::cuda
