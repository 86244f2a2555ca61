// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm_multimem.h"

#include "backend/cuda/kernels/gemm_multimem_params.h"
#include "backend/cuda/kernels/gemm_multimem_table.h"
#include "plan/problem.h"
#include "plan/schedules.h"
#include "schedule/multimem_tiles.h"

namespace tilelace::cuda {
namespace {

/// Tiles are the same on all ranks, and so is where results go. In which order a rank walks does
/// not matter.
std::uint32_t hash_of(const Problem& p, const plan::GemmMultimemPlan& plan,
                      const ReachableOut& reachable) {
  Plan agreed;
  agreed.op = p.op;
  agreed.transport = Transport::multimem;
  agreed.tile_m = plan.gemm.tile.worker_rows();
  agreed.tile_n = plan.gemm.tile.worker_cols();
  agreed.blocks = plan.emulated ? 2 : 1;
  agreed.partials = p.dtype;
  const std::uint64_t where = plan.direct ? reachable.where() : 0;
  const std::uint64_t mixed = where * 0x9e3779b97f4a7c15ULL;
  return plan::agreement_hash(p, agreed) ^ static_cast<std::uint32_t>(mixed >> 32U);
}

void require_plan(const Problem& p, const plan::GemmMultimemPlan& plan, const RankCalls& calls,
                  const ReachableOut& reachable, const void* function) {
  require(p.op == Op::gemm_ar, "gemm_ar: got {}", name_of(p.op));
  require(p.n.size() == 1, "gemm_ar: got {} weights, expected one", p.n.size());
  require(p.dtype != DType::fp32, "gemm_ar: dtype, got fp32, expected bf16 or fp16");
  require(function != nullptr && plan.gemm.split_tiles == 0,
          "gemm_ar: plan {}, expected whole tiles of a kernel whose sums the switch makes",
          plan::describe(plan));
  require(!plan.direct || reachable.base != nullptr,
          "gemm_ar: out of a direct plan, got memory that peers do not reach, expected symmetric");
  const bool mapped =
      calls.memory().multicast() != nullptr && (!plan.direct || reachable.multicast != nullptr);
  require(plan.emulated || mapped,
          "gemm_ar: transport multimem needs memory that is mapped for multicast, got some that is "
          "not");
}

/// The product alone: what comes behind a sum is not for a partial.
void fill_product(GemmMultimemParams& params, const RankCalls& calls, const Problem& p,
                  const GemmKernel& kernel, const ReduceOperands& t) {
  fill_operands(params, kernel, {p.m, p.n.front(), p.k, p.dtype},
                {t.x, t.weight, nullptr, t.out, Activation::none}, calls.scratch());
  require_aligned(t.bias, "bias");
  require_aligned(t.residual, "residual");
  params.sum_bias = t.bias;
  params.sum_activation = p.activation;
  params.residual = t.residual;
  params.m = static_cast<int>(p.m);
}

void set_places(GemmMultimemParams& params, const RankCalls& calls, unsigned slot,
                const ReachableOut& direct, void* out) {
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

SlotNeeds GemmMultimem::needs(const Problem& p) {
  return {0, static_cast<std::size_t>(plan::gemm_multimem_staging_bytes(p)),
          static_cast<std::size_t>(plan::gemm_multimem_counts(p))};
}

void GemmMultimem::run(const Problem& p, const plan::GemmMultimemPlan& given,
                       const ReduceOperands& tensors, cudaStream_t stream,
                       const ReachableOut& reachable) {
  if (p.m == 0) return calls_.admit("gemm_ar", plan::agreement_hash(p, {}), Op::gemm_ar, stream);
  plan::GemmMultimemPlan plan = given;
  plan.gemm = calls_.fit(given.gemm);
  GemmKernel kernel = kernel_of(plan.gemm, p.dtype);
  const MultimemKernels made = gemm_multimem(kernel.tile.name, p.dtype);
  const void* const function = plan.emulated ? made.emulated : made.function;
  require_plan(p, plan, calls_, reachable, function);
  kernel.threads = made.threads;
  GemmMultimemParams params{};
  fill_product(params, calls_, p, kernel, tensors);
  params.call = calls_.params(0, hash_of(p, plan, reachable), p.op);
  params.work = plan::work_of(plan.gemm, {p.m, p.n.front(), p.k, p.dtype});
  const int parts = params.work.order.tiles() * kernel.tile.cluster();
  calls_.require_room("gemm_ar", {0, static_cast<std::size_t>(plan::gemm_multimem_staging_bytes(p)),
                                  static_cast<std::size_t>(schedule::num_counts(parts))});
  const int ctas = fill_grid(params, params.work, kernel, plan.gemm);
  calls_.require_place("gemm_ar", ctas, 0);
  const unsigned slot = calls_.begin_call("gemm_ar", Op::gemm_ar, stream);
  set_places(params, calls_, slot, plan.direct ? reachable : ReachableOut{}, tensors.out);
  fill_outputs(params.out, params.out_rest, kernel,
               {calls_.memory().local() + params.partials, p.m, p.n.front()}, p.dtype);
  launch_gemm(kernel, function, &params, ctas, stream, plan.gemm.early_weights);
}

}  // namespace tilelace::cuda
