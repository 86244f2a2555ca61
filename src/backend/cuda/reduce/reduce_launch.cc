// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/reduce/reduce_launch.h"

#include "plan/base/problem.h"
#include "tilelace/op_table.h"

namespace tilelace::cuda {
namespace {

constexpr double kGivenWithin = 0.5;  ///< of the other group's turn: a partial leaves

/// Of the partial that one CTA gives for a tile.
int given_bytes(const ReduceKernel& kernel) {
  return kernel.of.given_groups * kernel.of.given_pieces * kernel.of.piece_bytes;
}

}  // namespace

SlotNeeds partial_needs(int partials, const ReduceKernel& kernel) {
  const auto parts = static_cast<std::size_t>(partials * kernel.of.tile.cluster());
  return {parts * static_cast<std::size_t>(kernel.of.given_groups),
          parts * static_cast<std::size_t>(given_bytes(kernel))};
}

void fill_reduce(PartialParams& params, const RankCalls& calls, const OpCall& call,
                 const plan::GemmPlan& gemm, const ReduceKernel& given) {
  const Problem& p = call.problem;
  const GemmKernel& kernel = given.of;
  require(
      gemm.split_tiles == 0 || (row_of(p.op).shares && gemm.rounds == 2 && gemm.tile.pingpong),
      "{}: plan {}: only gemm_ar can have split, with 2 rounds and a tile whose groups take turns "
      "(docs/plans.md)",
      name_of(p.op), plan::describe(gemm));
  GemmTensors tensors = call.product_into(call.out());
  tensors.bias = call.bias();
  tensors.activation = p.activation;
  fill_operands(params, kernel, {p.m, p.n.front(), p.k, p.dtype}, tensors, calls.scratch());
  params.residual = call.tensors.residual.data;
  params.call = calls.params(0, call.hash, p.op);
  params.pace = static_cast<std::uint32_t>(kGivenWithin * 16384 / kernel.given_pieces);
  const int terms = std::max(1, (p.ranks - 1) * kernel.given_groups);
  const plan::GemmTile& tile = gemm.tile;
  const int at_once = plan::terms_at_once(tile.width, tile.pingpong);
  const int room = kernel.stage_bytes / kernel.piece_bytes;
  params.term_pieces = std::min(kernel.given_pieces, room / terms / at_once * at_once);
  require(params.term_pieces > 0, "{}: tile {}: got {} ranks, expected at most {}", name_of(p.op),
          tile.name, p.ranks, room / at_once / kernel.given_groups + 1);
  params.term_steps = static_cast<int>(schedule::ceil_div(kernel.given_pieces, params.term_pieces));
}

void set_slot(PartialParams& params, const RankCalls& calls, unsigned slot) {
  params.call.flags = calls.flags_at(slot);
  params.partials = calls.data_at(slot);
}

}  // namespace tilelace::cuda
