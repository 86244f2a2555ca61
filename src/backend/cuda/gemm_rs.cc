// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm_rs.h"

#include "backend/cuda/gemm_launch.h"
#include "plan/problem.h"
#include "plan/schedules.h"

namespace tilelace::cuda {
namespace {

using schedule::Index;

constexpr double kGivenWithin = 0.5;  ///< of the other group's turn: a partial leaves

/// Of the partial that one CTA gives for a tile.
int given_bytes(const GemmKernel& kernel) {
  return kernel.given_groups * kernel.given_pieces * kernel.piece_bytes;
}

/// The choices that must agree, as the agreement hash knows them: the shape of partials depends on
/// the tile, so all ranks take the same.
Plan agreed_plan(const GemmKernel& kernel) {
  Plan p;
  p.op = Op::gemm_rs;
  p.transport = Transport::store;
  p.tile_m = kernel.tile.worker_rows();
  p.tile_n = kernel.tile.worker_cols();
  p.blocks = 1;
  p.chunk_rows = given_bytes(kernel);
  return p;
}

}  // namespace

SlotNeeds GemmRs::needs(const Problem& p) {
  return {plan::kMaxPartialFlags, static_cast<std::size_t>(plan::gemm_rs_staging_bytes(p))};
}

namespace {

void require_call(const Problem& p, const plan::GemmRsPlan& plan, const GemmKernel& kernel) {
  require(p.op == Op::gemm_rs && p.n.size() == 1,
          "gemm_rs: got {} with {} weights, expected "
          "gemm_rs with one",
          name_of(p.op), p.n.size());
  require(p.dtype != DType::fp32, "gemm_rs: dtype, got fp32, expected bf16 or fp16");
  require(kernel.reducing != nullptr && plan.gemm.split_tiles == 0,
          "gemm_rs: plan {}, expected whole tiles of a kernel that adds partial sums",
          plan::describe(plan.gemm));
}

/// Parameters of the kernel for a call in this slot.
GemmRsParams params_of(const RankCalls& calls, const Problem& p, const plan::GemmRsPlan& plan,
                       const GemmRsTensors& t, const GemmKernel& kernel, unsigned slot) {
  const Plan agreed = agreed_plan(kernel);
  const auto borders = plan::borders_of(p);
  const auto schedule = plan::gemm_reduce_schedule(p, agreed, calls.group().rank(), borders);
  const plan::GemmProblem gemm{p.m, p.n.front(), p.k, p.dtype};
  GemmRsParams params{};
  fill_operands(params, kernel, gemm, {t.x, t.weight, t.bias, t.out, p.activation},
                calls.scratch());
  const schedule::GemmWork work = plan::work_of(plan.gemm, gemm);
  const auto order =
      schedule::make_reduce_order(schedule, work.order, kernel.tile.worker_rows(), plan.together);
  params.work = schedule::make_gemm_work(order, work.workers, work.k_steps, 0);
  const Index own = schedule.split.shard(calls.group().rank()).size();
  if (own > 0) fill_outputs(params.out, params.out_rest, kernel, {t.out, own, gemm.n}, p.dtype);
  params.call = calls.params(slot, plan::agreement_hash(p, agreed), Op::gemm_rs);
  params.partials = calls.data_at(slot);
  params.pace = static_cast<std::uint32_t>(kGivenWithin * 16384 / kernel.given_pieces);
  const int terms = std::max(1, (p.ranks - 1) * kernel.given_groups);
  params.term_pieces =
      std::min(kernel.given_pieces, kernel.stage_bytes / kernel.piece_bytes / terms);
  require(params.term_pieces > 0, "gemm_rs: tile {}, got {} ranks, expected at most {}",
          plan.gemm.tile.name, p.ranks,
          kernel.stage_bytes / kernel.piece_bytes / kernel.given_groups + 1);
  params.term_steps = static_cast<int>(schedule::ceil_div(kernel.given_pieces, params.term_pieces));
  const auto partials = static_cast<std::size_t>(order.num_partials() * kernel.tile.cluster());
  const std::size_t bytes = partials * static_cast<std::size_t>(given_bytes(kernel));
  require(bytes <= calls.data_bytes(),
          "gemm_rs: m {} n {}, got {} bytes of partial sums, expected "
          "at most {}",
          p.m, gemm.n, bytes, calls.data_bytes());
  const std::size_t flags = partials * static_cast<std::size_t>(kernel.given_groups);
  require(flags <= calls.flags(), "gemm_rs: m {} n {}, got {} flags, expected at most {}", p.m,
          gemm.n, flags, calls.flags());
  return params;
}

}  // namespace

void GemmRs::run(const Problem& problem, const plan::GemmRsPlan& plan, const GemmRsTensors& tensors,
                 cudaStream_t stream) {
  if (problem.m == 0)
    return calls_.admit("gemm_rs", plan::agreement_hash(problem, {}), Op::gemm_rs, stream);
  const GemmKernel& kernel = kernel_of(plan.gemm, problem.dtype);
  require_call(problem, plan, kernel);
  // Everything is checked before the call is counted.
  GemmRsParams params = params_of(calls_, problem, plan, tensors, kernel, 0);
  const unsigned slot = calls_.begin_call("gemm_rs");
  params.call.flags = calls_.flags_at(slot);
  params.partials = calls_.data_at(slot);
  const int ctas = fill_grid(params, params.work, kernel, plan.gemm);
  launch_gemm(kernel, kernel.reducing, &params, ctas, stream, plan.gemm.early_weights);
}

}  // namespace tilelace::cuda
