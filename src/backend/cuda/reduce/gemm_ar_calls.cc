// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/reduce/gemm_ar_calls.h"

#include "backend/cuda/kernels/ops/gemm_ar.h"
#include "plan/base/problem.h"
#include "plan/ways/gemm_rs_way.h"
#include "schedule/shared_parts.h"

namespace tilelace::cuda {
namespace {

using schedule::Index;

constexpr double kSharedWithin = 0.7;  ///< of the other group's turn: a finished tile leaves
constexpr double kCyclesPerUs = 1500;  ///< at the power limit

/// Results lie behind the partials.
std::size_t results_at(const SlotNeeds& partials) { return (partials.bytes + 127) / 128 * 128; }

/// Where results are: this rank's, and of all ranks those that peers reach.
struct Results {
  std::byte* own = nullptr;
  std::byte* first = nullptr;  ///< rank 0's
  std::size_t stride = 0;

  [[nodiscard]] std::byte* at(int rank) const {
    return first + static_cast<std::size_t>(rank) * stride;
  }
};

/// Rows of which this rank finishes tiles.
schedule::RowRange own_rows(const Problem& p, const plan::GemmArWay& plan, int rank) {
  if (plan.by_columns) return {0, p.m};
  return schedule::RowSplit{p.m, p.ranks, nullptr}.shard(rank);
}

/// Own rows, at this rank's result and at every peer.
void fill_shares(GemmArParams& params, const RankCalls& calls, const Problem& p,
                 const GemmKernel& kernel, schedule::RowRange own, const Results& results) {
  const int rank = calls.group().rank();
  const Index row = plan::row_bytes(p);
  for (int i = 0; i < p.ranks && own.size() > 0; ++i) {
    std::byte* const at = i == 0 ? results.own : results.at((rank + i) % p.ranks);
    fill_outputs(params.out[i], params.out_remainder[i], kernel,
                 {at + own.begin * row, own.size(), p.n.front()}, p.dtype);
  }
}

/// The residual from the first own row on.
void fill_own(GemmArParams& params, const Problem& p, schedule::RowRange own) {
  params.own_rows = static_cast<int>(own.size());
  if (params.residual != nullptr)
    params.residual =
        static_cast<const std::byte*>(params.residual) + own.begin * plan::row_bytes(p);
}

schedule::PartShape part_shape(const GemmKernel& kernel) {
  const plan::GemmTile& tile = kernel.tile;
  const int groups = kernel.given_groups;
  return {tile.cluster_rows, tile.cluster_cols, groups, tile.rows() / groups, tile.width};
}

/// All but where the slot is.
GemmArParams make_params(const OpCall& call, const plan::GemmArWay& plan, const RankCalls& calls,
                         const ReduceKernel& parts) {
  const Problem& p = call.problem;
  const int rank = calls.group().rank();
  GemmArParams params{};
  fill_reduce(params, calls, call, plan.gemm, parts);
  fill_own(params, p, own_rows(p, plan, rank));
  if (plan.by_columns)
    params.tail[0] = tail_map(parts.of, {call.tensors.input.data, p.m, p.k}, p.m, p.dtype);
  const auto work = plan::work_of(plan.gemm, {p.m, p.n.front(), p.k, p.dtype});
  params.work = schedule::make_gemm_work(plan::gemm_ar_order(p, plan, rank), work.workers,
                                         work.k_steps, work.split_tiles, plan.gemm.rounds);
  const plan::GemmTile& tile = parts.of.tile;
  const int pieces = tile.blocks * ((tile.width + 63) / 64);
  params.delay = static_cast<std::uint32_t>(kCyclesPerUs * plan::gemm_ar_hold_us(p, plan));
  params.share_pace = static_cast<std::uint32_t>(kSharedWithin * 16384 / pieces);
  const auto flags = static_cast<int>(partial_needs(params.work.order.num_partials(), parts).flags);
  params.shared.flags = {tile.cluster() * parts.of.given_groups, flags};
  params.shared.shape = part_shape(parts.of);
  params.direct = call.direct;
  return params;
}

}  // namespace

void GemmArCalls::run(const OpCall& call, const plan::GemmArWay& given) {
  const Problem& p = call.problem;
  plan::GemmArWay plan = given;
  plan.gemm = calls_.fit(given.gemm);
  const GemmKernel& kernel = kernel_of(plan.gemm, p.dtype);
  const void* const function = kernel.of(GemmUse::gemm_ar);
  require(function != nullptr,
          "gemm_ar: plan {}: this build has no fused kernel of gemm_ar for the tile",
          plan::describe(plan.gemm));
  const ReduceKernel parts{kernel};
  GemmArParams params = make_params(call, plan, calls_, parts);
  const SlotNeeds partials = partial_needs(params.work.order.num_partials(), parts);
  const std::size_t staged = results_at(partials);
  const auto result_bytes = static_cast<std::size_t>(p.m * plan::row_bytes(p));
  calls_.require_room("gemm_ar",
                      {static_cast<std::size_t>(params.shared.flags.end(params.work.order)),
                       staged + (params.direct ? 0 : result_bytes)});
  const GemmGrid grid = fill_grid(params, params.work, kernel, plan.gemm);
  const unsigned slot = calls_.begin_call("gemm_ar", p.op, call.stream());
  set_slot(params, calls_, slot);
  const std::size_t at = calls_.data_at(slot) + staged;
  auto* const out = static_cast<std::byte*>(call.out());
  const ReachableTensor& reachable = call.tensors.reachable;
  const Results results = params.direct
                              ? Results{out, reachable.base + reachable.offset, reachable.stride}
                              : Results{out, calls_.memory().base() + at, calls_.memory().stride()};
  params.shared.results = at;
  params.shared.out = out;
  fill_shares(params, calls_, p, kernel, own_rows(p, plan, calls_.group().rank()), results);
  launch_gemm(kernel, function, &params, grid, call.stream(), plan.gemm.early_weights);
}

}  // namespace tilelace::cuda
