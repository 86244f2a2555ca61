// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm_ar.h"

#include "plan/gemm_rs.h"
#include "plan/problem.h"
#include "schedule/share_tiles.h"

namespace tilelace::cuda {
namespace {

using schedule::Index;

constexpr double kSharedWithin = 0.7;  ///< of the other group's turn: a finished tile leaves
constexpr double kCyclesPerUs = 1500;  ///< at the power limit

/// Results lie behind the partials.
std::size_t results_at(const SlotNeeds& partials) { return (partials.bytes + 127) / 128 * 128; }

/// The order counts too, and where the peers' results are.
std::uint32_t hash_of(const Problem& p, const plan::GemmArPlan& plan, const ReduceKernel& kernel,
                      const ReachableOut& reachable) {
  Plan agreed = agreed_reduce_plan(p, kernel);
  agreed.blocks = plan.lag;
  std::uint64_t mixed = plan.direct ? reachable.where() : 0;
  for (const Index choice : {plan.block_rows, Index{plan.by_columns ? 1 : 0}})
    mixed = (mixed * 64 + static_cast<std::uint64_t>(choice)) * 0x9e3779b97f4a7c15ULL;
  return reduce_hash(p, agreed, kernel) ^ static_cast<std::uint32_t>(mixed >> 32U);
}

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
schedule::RowRange own_rows(const Problem& p, const plan::GemmArPlan& plan, int rank) {
  if (plan.by_columns) return {0, p.m};
  return schedule::RowSplit{p.m, p.ranks, nullptr}.shard(rank);
}

/// Own rows, at this rank's result and at every peer.
void fill_shares(GemmArParams& params, const RankCalls& calls, const Problem& p,
                 const GemmKernel& kernel, schedule::RowRange own, const Results& results) {
  const int rank = calls.group().rank();
  const Index row = p.n.front() * static_cast<Index>(size_of(p.dtype));
  for (int i = 0; i < p.ranks && own.size() > 0; ++i) {
    std::byte* const at = i == 0 ? results.own : results.at((rank + i) % p.ranks);
    fill_outputs(params.out[i], params.out_rest[i], kernel,
                 {at + own.begin * row, own.size(), p.n.front()}, p.dtype);
  }
}

/// The residual from the first own row on.
void fill_own(GemmArParams& params, const Problem& p, schedule::RowRange own) {
  params.own_rows = static_cast<int>(own.size());
  if (params.residual != nullptr)
    params.residual = static_cast<const std::byte*>(params.residual) + own.begin * p.n.front() * 2;
}

schedule::PartShape part_shape(const GemmKernel& kernel) {
  const plan::GemmTile& tile = kernel.tile;
  const int groups = kernel.given_groups;
  return {tile.cluster_rows, tile.cluster_cols, groups, tile.rows() / groups, tile.width};
}

/// All but where the slot is.
GemmArParams make_params(const Problem& p, const plan::GemmArPlan& plan,
                         const ReduceOperands& tensors, const RankCalls& calls,
                         const ReduceKernel& parts, std::uint32_t hash) {
  const int rank = calls.group().rank();
  GemmArParams params{};
  fill_reduce(params, calls, p, hash, plan.gemm, tensors, parts);
  fill_own(params, p, own_rows(p, plan, rank));
  const auto work = plan::work_of(plan.gemm, {p.m, p.n.front(), p.k, p.dtype});
  params.work = schedule::make_gemm_work(plan::gemm_ar_order(p, plan, rank), work.workers,
                                         work.k_steps, work.split_tiles, plan.gemm.rounds);
  const plan::GemmTile& tile = parts.of.tile;
  const int pieces = tile.blocks * ((tile.width + 63) / 64);
  params.hold = static_cast<std::uint32_t>(kCyclesPerUs * plan::gemm_ar_hold_us(p, plan));
  params.share_pace = static_cast<std::uint32_t>(kSharedWithin * 16384 / pieces);
  const auto flags = static_cast<int>(partial_needs(params.work.order.num_partials(), parts).flags);
  params.shared.flags = {tile.cluster() * parts.of.given_groups, flags};
  params.shared.shape = part_shape(parts.of);
  params.direct = plan.direct;
  return params;
}

}  // namespace

SlotNeeds GemmAr::needs(const Problem& p) {
  return {static_cast<std::size_t>(plan::kGemmArFlags),
          static_cast<std::size_t>(plan::gemm_ar_staging_bytes(p))};
}

void GemmAr::run(const Problem& p, const plan::GemmArPlan& given, const ReduceOperands& tensors,
                 cudaStream_t stream, const ReachableOut& reachable) {
  if (p.m == 0) return calls_.admit("gemm_ar", plan::agreement_hash(p, {}), Op::gemm_ar, stream);
  require(p.op == Op::gemm_ar, "gemm_ar: got {}", name_of(p.op));
  plan::GemmArPlan plan = given;
  plan.gemm = calls_.fit(given.gemm);
  const GemmKernel& kernel = kernel_of(plan.gemm, p.dtype);
  const void* const function = gemm_sharing(kernel.tile.name, p.dtype);
  require(function != nullptr, "gemm_ar: plan {}, expected a tile whose groups take turns",
          plan::describe(plan.gemm));
  require(!plan.direct || reachable.base != nullptr,
          "gemm_ar: out of a direct plan, got memory that peers do not reach, expected symmetric");
  const ReduceKernel parts{kernel};
  GemmArParams params =
      make_params(p, plan, tensors, calls_, parts, hash_of(p, plan, parts, reachable));
  const SlotNeeds partials = partial_needs(params.work.order.num_partials(), parts);
  const std::size_t staged = results_at(partials);
  const auto result_bytes = static_cast<std::size_t>(p.m * p.n.front() * 2);
  calls_.require_room("gemm_ar",
                      {static_cast<std::size_t>(params.shared.flags.end(params.work.order)),
                       staged + (plan.direct ? 0 : result_bytes)});
  const GemmGrid grid = fill_grid(params, params.work, kernel, plan.gemm);
  const unsigned slot = calls_.begin_call("gemm_ar", Op::gemm_ar, stream);
  set_slot(params, calls_, slot);
  const std::size_t at = calls_.data_at(slot) + staged;
  Results results{static_cast<std::byte*>(tensors.out), calls_.memory().base() + at,
                  calls_.memory().stride()};
  if (plan.direct) results = {results.own, reachable.base + reachable.offset, reachable.stride};
  params.shared.results = at;
  params.shared.out = static_cast<std::byte*>(tensors.out);
  fill_shares(params, calls_, p, kernel, own_rows(p, plan, calls_.group().rank()), results);
  launch_gemm(kernel, function, &params, grid, stream, plan.gemm.early_weights);
}

}  // namespace tilelace::cuda
