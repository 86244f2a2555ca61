// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/reduce_launch.h"

#include "plan/problem.h"

namespace tilelace::cuda {
namespace {

constexpr double kGivenWithin = 0.5;  ///< of the other group's turn: a partial leaves

/// Of the partial that one CTA gives for a tile.
int given_bytes(const ReduceKernel& kernel) {
  return kernel.of.given_groups * kernel.of.given_pieces * kernel.of.piece_bytes;
}

}  // namespace

Plan agreed_reduce_plan(const Problem& problem, const ReduceKernel& kernel) {
  Plan p;
  p.op = problem.op;
  p.transport = Transport::store;
  p.tile_m = kernel.of.tile.worker_tokens();
  p.tile_n = kernel.of.tile.worker_columns();
  p.chunk_rows = given_bytes(kernel);
  p.partials = problem.dtype;
  return p;
}

std::uint32_t reduce_hash(const Problem& problem, Plan agreed, const ReduceKernel& kernel) {
  // As many bytes lie otherwise.
  agreed.blocks += 16 * kernel.of.given_groups + (kernel.of.tile.swapped ? 64 : 0);
  agreed.straddle = kernel.pairs;  // likewise
  return plan::agreement_hash(problem, agreed);
}

SlotNeeds partial_needs(int partials, const ReduceKernel& kernel) {
  const auto parts = static_cast<std::size_t>(partials * kernel.of.tile.cluster());
  return {parts * static_cast<std::size_t>(kernel.of.given_groups),
          parts * static_cast<std::size_t>(given_bytes(kernel))};
}

void fill_reduce(ReduceCommon& params, const RankCalls& calls, const Problem& p, std::uint32_t hash,
                 const plan::GemmPlan& gemm, const ReduceOperands& t, const ReduceKernel& given) {
  const GemmKernel& kernel = given.of;
  const auto op = name_of(p.op);
  require(p.n.size() == 1, "{}: got {} weights, expected one", op, p.n.size());
  require(p.dtype != DType::fp32, "{}: dtype, got fp32, expected bf16 or fp16", op);
  require(gemm.split_tiles == 0 || (p.op == Op::gemm_ar && gemm.rounds == 2 && gemm.tile.pingpong),
          "{}: plan {}, expected whole tiles, or of gemm_ar shared ones in two rounds", op,
          plan::describe(gemm));
  const plan::GemmProblem problem{p.m, p.n.front(), p.k, p.dtype};
  fill_operands(params, kernel, problem, {t.x, t.weight, t.bias, t.out, p.activation},
                calls.scratch());
  require_aligned(t.residual, "residual");
  params.residual = t.residual;
  params.call = calls.params(0, hash, p.op);
  params.pace = static_cast<std::uint32_t>(kGivenWithin * 16384 / kernel.given_pieces);
  const int terms = std::max(1, (p.ranks - 1) * kernel.given_groups);
  const plan::GemmTile& tile = gemm.tile;
  const int at_once = plan::terms_at_once(tile.width, tile.pingpong);
  const int room = kernel.stage_bytes / kernel.piece_bytes;
  params.term_pieces = std::min(kernel.given_pieces, room / terms / at_once * at_once);
  require(params.term_pieces > 0, "{}: tile {}, got {} ranks, expected at most {}", op, tile.name,
          p.ranks, room / at_once / kernel.given_groups + 1);
  params.term_steps = static_cast<int>(schedule::ceil_div(kernel.given_pieces, params.term_pieces));
}

void set_slot(ReduceCommon& params, const RankCalls& calls, unsigned slot) {
  params.call.flags = calls.flags_at(slot);
  params.partials = calls.data_at(slot);
}

}  // namespace tilelace::cuda
