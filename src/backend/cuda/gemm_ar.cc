// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm_ar.h"

#include "backend/cuda/collect_tiles.h"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/trace.h"
#include "plan/gemm_rs.h"
#include "plan/problem.h"

namespace tilelace::cuda {
namespace {

using schedule::Index;

constexpr double kSharedWithin = 0.7;  ///< of the other group's turn: a finished tile leaves

/// Results lie behind the partials.
std::size_t results_at(const SlotNeeds& partials) { return (partials.bytes + 127) / 128 * 128; }

/// The order counts too, and where the peers' results are.
std::uint32_t hash_of(const Problem& p, const plan::GemmArPlan& plan, const ReduceKernel& kernel,
                      const ReachableOut& reachable) {
  Plan agreed = agreed_reduce_plan(p, kernel);
  agreed.blocks = plan.lag;
  const std::uint64_t where = plan.direct ? reachable.where() : 0;
  const std::uint64_t mixed =
      (where * 64 + static_cast<std::uint64_t>(plan.block_rows)) * 0x9e3779b97f4a7c15ULL;
  return plan::agreement_hash(p, agreed) ^ static_cast<std::uint32_t>(mixed >> 32U);
}

/// Own rows, at this rank's result and at every peer; `peers`: the result at rank 0.
void fill_shares(GemmArParams& params, const RankCalls& calls, const Problem& p,
                 const GemmKernel& kernel, void* out, std::byte* peers, std::size_t stride) {
  const int rank = calls.group().rank();
  const Index row = p.n.front() * static_cast<Index>(size_of(p.dtype));
  const schedule::RowSplit split{p.m, p.ranks, nullptr};
  const schedule::RowRange own = split.shard(rank);
  for (int i = 0; i < p.ranks && own.size() > 0; ++i) {
    const int peer = (rank + i) % p.ranks;
    std::byte* const at =
        i == 0 ? static_cast<std::byte*>(out) : peers + static_cast<std::size_t>(peer) * stride;
    fill_outputs(params.out[i], params.out_rest[i], kernel,
                 {at + own.begin * row, own.size(), p.n.front()}, p.dtype);
  }
}

/// The residual from the first own row on.
void fill_own(GemmArParams& params, const Problem& p, int rank) {
  const schedule::RowRange own = schedule::RowSplit{p.m, p.ranks, nullptr}.shard(rank);
  params.own_rows = static_cast<int>(own.size());
  if (params.residual != nullptr)
    params.residual = static_cast<const std::byte*>(params.residual) + own.begin * p.n.front() * 2;
}

CollectTiles collect_of(const GemmArParams& params, const GemmKernel& kernel, const Problem& p) {
  CollectTiles c;
  c.call = params.call;
  c.call.first = false;
  c.call.last = true;
  c.order = params.work.order;
  c.cluster_rows = kernel.tile.cluster_rows;
  c.cluster_cols = kernel.tile.cluster_cols;
  c.tile_rows = kernel.tile.rows();
  c.tile_cols = kernel.tile.width;
  c.first_shared = params.first_shared;
  c.columns = static_cast<int>(p.n.front());
  return c;
}

}  // namespace

SlotNeeds GemmAr::needs(const Problem& p, DType partials) {
  return {2 * plan::kMaxPartialFlags,
          static_cast<std::size_t>(plan::gemm_ar_staging_bytes(p, partials))};
}

void GemmAr::run(const Problem& p, const plan::GemmArPlan& given, const ReduceOperands& tensors,
                 cudaStream_t stream, const ReachableOut& reachable) {
  if (p.m == 0) return calls_.admit("gemm_ar", plan::agreement_hash(p, {}), Op::gemm_ar, stream);
  require(p.op == Op::gemm_ar, "gemm_ar: got {}", name_of(p.op));
  plan::GemmArPlan plan = given;
  plan.gemm = calls_.fit(given.gemm);
  const GemmKernel& kernel = kernel_of(plan.gemm, p.dtype);
  const void* const function = plan.wide ? gemm_wide(kernel.tile.name, p.dtype).sharing
                                         : gemm_sharing(kernel.tile.name, p.dtype);
  require(function != nullptr, "gemm_ar: plan {}, expected a tile whose groups take turns{}",
          plan::describe(plan.gemm), plan.wide ? ", made for partials in fp32" : "");
  const ReduceKernel parts{kernel, plan.wide};
  GemmArParams params{};
  fill_reduce(params, calls_, p, hash_of(p, plan, parts, reachable), plan.gemm, tensors, parts);
  fill_own(params, p, calls_.group().rank());
  const auto work = plan::work_of(plan.gemm, {p.m, p.n.front(), p.k, p.dtype});
  params.work = schedule::make_gemm_work(plan::gemm_ar_order(p, plan, calls_.group().rank()),
                                         work.workers, work.k_steps, 0);
  const SlotNeeds partials = partial_needs(params.work.order.num_partials(), parts);
  require(!plan.direct || reachable.base != nullptr,
          "gemm_ar: out of a direct plan, got memory that peers do not reach, expected symmetric");
  const std::size_t results = results_at(partials);
  const auto result_bytes = static_cast<std::size_t>(p.m * p.n.front() * 2);
  calls_.require_room("gemm_ar", {2 * partials.flags, results + (plan.direct ? 0 : result_bytes)});
  const int chunks = kernel.tile.blocks * ((kernel.tile.width + 63) / 64);
  params.share_pace = static_cast<std::uint32_t>(kSharedWithin * 16384 / chunks);
  params.first_shared = static_cast<int>(partials.flags);
  params.awaits = plan.direct;
  params.call.last = plan.direct;
  const int ctas = fill_grid(params, params.work, kernel, plan.gemm);
  calls_.require_place("gemm_ar", ctas, 0);
  const unsigned slot = calls_.begin_call("gemm_ar", Op::gemm_ar, stream);
  set_slot(params, calls_, slot);
  const std::size_t at = calls_.data_at(slot) + results;
  if (plan.direct)
    fill_shares(params, calls_, p, kernel, tensors.out, reachable.base + reachable.offset,
                reachable.stride);
  else
    fill_shares(params, calls_, p, kernel, tensors.out, calls_.memory().base() + at,
                calls_.memory().stride());
  launch_gemm(kernel, function, &params, ctas, stream, plan.gemm.early_weights);
  if (plan.direct) return;
  CollectTiles collect = collect_of(params, kernel, p);
  collect.results = at;
  collect.out = static_cast<std::byte*>(tensors.out);
  TILELACE_TRACE_TO(collect, "collect");
  // CTAs of a waiting kernel, too, keep others' products out.
  const int most = calls_.shares_device() ? calls_.multiprocessors() : kCollectCtas;
  check(enqueue_collect(collect, most, stream), "collecting the tiles of gemm_ar");
}

}  // namespace tilelace::cuda
