// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm_sums.h"

#include "backend/cuda/kernels/gemm_sums_params.h"
#include "backend/cuda/kernels/gemm_sums_table.h"
#include "plan/problem.h"
#include "plan/schedules.h"
#include "schedule/tile_sums.h"

namespace tilelace::cuda {
namespace {

/// Tiles are the same on all ranks, and so is where results go. In which order a rank walks does
/// not matter.
std::uint32_t hash_of(const Problem& p, const plan::GemmSumsPlan& plan,
                      const ReachableOut& reachable) {
  Plan agreed;
  agreed.op = p.op;
  agreed.transport = plan.by_switch ? Transport::multimem : Transport::pull;
  agreed.tile_m = plan.gemm.tile.worker_rows();
  agreed.tile_n = plan.gemm.tile.worker_cols();
  agreed.blocks = plan.shots;
  agreed.partials = p.dtype;
  const std::uint64_t where = plan.direct ? reachable.where() : 0;
  const std::uint64_t mixed = where * 0x9e3779b97f4a7c15ULL;
  return plan::agreement_hash(p, agreed) ^ static_cast<std::uint32_t>(mixed >> 32U);
}

void require_plan(const Problem& p, const plan::GemmSumsPlan& plan, const RankCalls& calls,
                  const ReachableOut& reachable, const void* function) {
  require(p.op == Op::gemm_ar, "gemm_ar: got {}", name_of(p.op));
  require(p.n.size() == 1, "gemm_ar: got {} weights, expected one", p.n.size());
  require(p.dtype != DType::fp32, "gemm_ar: dtype, got fp32, expected bf16 or fp16");
  require(function != nullptr && plan.gemm.split_tiles == 0,
          "gemm_ar: plan {}, expected whole tiles of a kernel whose ranks keep their partials",
          plan::describe(plan));
  require(!plan.direct || reachable.base != nullptr,
          "gemm_ar: out of a direct plan, got memory that peers do not reach, expected symmetric");
  const bool mapped =
      calls.memory().multicast() != nullptr && (!plan.direct || reachable.multicast != nullptr);
  require(!plan.by_switch || mapped,
          "gemm_ar: transport multimem needs memory that is mapped for multicast, got some that is "
          "not");
}

/// The product alone: what comes behind a sum is not for a partial.
void fill_product(GemmSumsParams& params, const RankCalls& calls, const Problem& p,
                  const GemmKernel& kernel, const ReduceOperands& t) {
  fill_operands(params, kernel, {p.m, p.n.front(), p.k, p.dtype},
                {t.x, t.weight, nullptr, t.out, Activation::none}, calls.scratch());
  require_aligned(t.bias, "bias");
  require_aligned(t.residual, "residual");
  require_aligned(t.out, "out");
  params.sum_bias = t.bias;
  params.sum_activation = p.activation;
  params.residual = t.residual;
  params.m = static_cast<int>(p.m);
}

void set_places(GemmSumsParams& params, const RankCalls& calls, unsigned slot,
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

SlotNeeds GemmSums::needs(const Problem& p) {
  return {0, static_cast<std::size_t>(plan::gemm_sums_staging_bytes(p)),
          static_cast<std::size_t>(plan::gemm_sums_counts(p))};
}

void GemmSums::run(const Problem& p, const plan::GemmSumsPlan& given, const ReduceOperands& tensors,
                   cudaStream_t stream, const ReachableOut& reachable) {
  if (p.m == 0) return calls_.admit("gemm_ar", plan::agreement_hash(p, {}), Op::gemm_ar, stream);
  plan::GemmSumsPlan plan = given;
  plan.gemm = calls_.fit(given.gemm);
  const GemmKernel& kernel = kernel_of(plan.gemm, p.dtype);
  const SumsKernels made = gemm_sums(kernel.tile.name, p.dtype);
  const void* const function = plan.by_switch ? made.by_switch : made.by_peers;
  require_plan(p, plan, calls_, reachable, function);
  GemmSumsParams params{};
  fill_product(params, calls_, p, kernel, tensors);
  params.one_shot = plan.shots == 1;
  params.call = calls_.params(0, hash_of(p, plan, reachable), p.op);
  params.work = plan::work_of(plan.gemm, {p.m, p.n.front(), p.k, p.dtype});
  const int parts = params.work.order.tiles() * kernel.tile.cluster();
  calls_.require_room("gemm_ar", {0, static_cast<std::size_t>(plan::gemm_sums_staging_bytes(p)),
                                  static_cast<std::size_t>(schedule::num_counts(parts))});
  const GemmGrid grid = fill_grid(params, params.work, kernel, plan.gemm);
  const unsigned slot = calls_.begin_call("gemm_ar", Op::gemm_ar, stream);
  set_places(params, calls_, slot, plan.direct ? reachable : ReachableOut{}, tensors.out);
  fill_outputs(params.out, params.out_rest, kernel,
               {calls_.memory().local() + params.partials, p.m, p.n.front()}, p.dtype);
  launch_gemm(kernel, function, &params, grid, stream, plan.gemm.early_weights);
}

}  // namespace tilelace::cuda
