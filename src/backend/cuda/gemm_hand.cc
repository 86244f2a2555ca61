// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm_hand.h"

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/hand_rows.h"
#include "plan/problem.h"
#include "plan/schedules.h"

namespace tilelace::cuda {
namespace {

using schedule::Index;

Index row_bytes(const Problem& p) { return p.n.front() * static_cast<Index>(size_of(p.dtype)); }

/// The choices that must agree, as the agreement hash knows them. Who made a partial with which
/// tile does not matter.
Plan agreed_plan(const Problem& p, const plan::GemmHandPlan& plan) {
  Plan agreed;
  agreed.op = p.op;
  agreed.path = plan::path_of(plan.way);
  agreed.route = plan::route_of(plan.way);
  agreed.transport = plan::transport_of(plan.way);
  agreed.chunk_rows = plan.chunk_rows;
  return agreed;
}

void require_call(const Problem& p, const plan::GemmHandPlan& plan, const ReduceOperands& t,
                  const RankCalls& calls, const schedule::ReduceRows& s) {
  plan::check_problem(p);
  require(p.op == Op::gemm_rs, "gemm_rs: op, got {}, expected gemm_rs", name_of(p.op));
  require(p.ranks == calls.group().ranks(), "gemm_rs: got a problem of {} ranks, expected {}",
          p.ranks, calls.group().ranks());
  require(p.dtype != DType::fp32, "gemm_rs: dtype, got fp32, expected bf16 or fp16");
  require(p.n.front() % 8 == 0, "gemm_rs: n, got {}, expected a multiple of 8", p.n.front());
  require(plan.chunk_rows > 0, "gemm_rs: chunk_rows, got {}, expected at least 1", plan.chunk_rows);
  require(t.weight != nullptr,
          "gemm_rs: weight, got none, expected one: partials that are {} are {}",
          plan::name_of(plan.way), "made here");
  calls.require_room("gemm_rs", {static_cast<std::size_t>(schedule::num_handed_flags(s)),
                                 static_cast<std::size_t>(plan::gemm_hand_staging_bytes(p))});
  require_aligned(t.bias, "bias");
  require_aligned(t.out, "out");
  require_aligned(t.residual, "residual");
}

}  // namespace

SlotNeeds GemmHand::needs(const Problem& p) {
  return {static_cast<std::size_t>(p.ranks * schedule::kMaxSumChunks),
          static_cast<std::size_t>(plan::gemm_hand_staging_bytes(p))};
}

void GemmHand::multiply_by_shards(const Problem& p, const plan::GemmHandPlan& plan,
                                  const ReduceOperands& t, unsigned slot, cudaStream_t stream) {
  const int rank = calls_.group().rank();
  const auto borders = plan::borders_of(p);
  const auto split = plan::split_of(p, borders);
  const Index row = row_bytes(p);
  const std::size_t data = calls_.data_at(slot);
  std::byte* const partials = calls_.memory().local() + data;
  const auto incoming = static_cast<std::size_t>(p.m * row);
  const auto pitch = static_cast<std::size_t>(plan::copied_pitch(p));
  // Also where nothing is copied: what is joined in a capture was forked there.
  if (p.ranks > 1) engine_.fork(stream);
  for (int i = 1; i <= p.ranks; ++i) {
    const int owner = (rank + i) % p.ranks;
    const schedule::RowRange rows = split.shard(owner);
    if (rows.size() == 0) continue;
    std::byte* const made = partials + rows.begin * row;
    const auto* const x = static_cast<const std::byte*>(t.x) +
                          rows.begin * p.k * static_cast<Index>(size_of(p.dtype));
    GemmCall(plan.gemm, {rows.size(), p.n.front(), p.k, p.dtype},
             {x, t.weight, nullptr, made, Activation::none}, calls_.scratch())
        .launch(stream);
    if (owner == rank) continue;
    // To the owner this rank is the one that is so many further on, less one.
    const auto place = static_cast<std::size_t>(p.ranks - i - 1);
    std::byte* const to = calls_.memory().base() +
                          static_cast<std::size_t>(owner) * calls_.memory().stride() + data +
                          incoming + place * pitch;
    engine_.fork(stream);
    engine_.copy_rows(to, row, made, row, row, rows.size());
  }
  if (p.ranks > 1) engine_.join(stream);
}

void GemmHand::run(const Problem& p, const plan::GemmHandPlan& asked, const ReduceOperands& t,
                   cudaStream_t stream) {
  if (p.m == 0) return calls_.admit("gemm_rs", plan::agreement_hash(p, {}), p.op, stream);
  const int rank = calls_.group().rank();
  plan::GemmHandPlan plan = asked;
  plan.gemm = calls_.fit(asked.gemm);
  HandSum rows;
  rows.schedule = plan::hand_rows_schedule(p, plan, rank);
  rows.schedule.workers = calls_.fit_ctas(rows.schedule.workers);
  require_call(p, plan, t, calls_, rows.schedule);
  const bool copied = plan.way == schedule::HandWay::copied;
  const unsigned slot = calls_.begin_call("gemm_rs", p.op, stream);
  rows.partials = calls_.data_at(slot);
  if (copied)
    multiply_by_shards(p, plan, t, slot, stream);
  else
    GemmCall(plan.gemm, {p.m, p.n.front(), p.k, p.dtype},
             {t.x, t.weight, nullptr, calls_.memory().local() + rows.partials, Activation::none},
             calls_.scratch())
        .launch(stream);
  rows.call = calls_.params(slot, plan::agreement_hash(p, agreed_plan(p, plan)), p.op);
  rows.bias = static_cast<const std::byte*>(t.bias);
  rows.residual = static_cast<const std::byte*>(t.residual);
  rows.out = static_cast<std::byte*>(t.out);
  rows.row_units = static_cast<std::int32_t>(row_bytes(p) / 16);
  rows.out_begin = rows.schedule.rows[rank].begin;
  rows.dtype = p.dtype;
  rows.activation = p.activation;
  rows.way = plan.way;
  rows.incoming = rows.partials + static_cast<std::size_t>(p.m * row_bytes(p));
  rows.pitch = static_cast<std::size_t>(plan::copied_pitch(p));
  // Copies lie between it and the products.
  const Start start = calls_.start(rows.schedule.workers, !copied);
  check(enqueue_hand(rows, start, stream), "handing partials to their owners");
}

}  // namespace tilelace::cuda
