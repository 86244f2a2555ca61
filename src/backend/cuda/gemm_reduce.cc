// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm_reduce.h"

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/gemm.h"
#include "backend/cuda/gemm_launch.h"
#include "backend/cuda/gemm_wide.h"
#include "backend/cuda/reduce_wide.h"
#include "plan/problem.h"
#include "plan/schedules.h"

namespace tilelace::cuda {
namespace {

using schedule::Index;

DType partials_of(const Problem& p, const plan::GemmReducePlan& plan) {
  return plan.wide ? DType::fp32 : p.dtype;
}

/// The choices that must agree, as the agreement hash knows them. Who made a partial with which
/// tile does not matter.
Plan agreed_plan(const Problem& p, const plan::GemmReducePlan& plan) {
  Plan agreed;
  agreed.op = p.op;
  agreed.path = Path::unfused;
  agreed.transport = plan.transport;
  agreed.chunk_rows = plan.chunk_rows;
  agreed.partials = partials_of(p, plan);
  return agreed;
}

Index row_bytes(const Problem& p) { return p.n.front() * static_cast<Index>(size_of(p.dtype)); }

void require_call(const Problem& p, const plan::GemmReducePlan& plan, const GemmReduceTensors& t,
                  const RankCalls& calls, const schedule::ReduceRows& s) {
  const auto op = name_of(p.op);
  plan::check_problem(p);
  require(p.op != Op::ag_gemm, "{}: op, got {}, expected gemm_rs or gemm_ar", op, op);
  require(p.ranks == calls.group().ranks(), "{}: got a problem of {} ranks, expected {}", op,
          p.ranks, calls.group().ranks());
  require(p.dtype != DType::fp32, "{}: dtype, got fp32, expected bf16 or fp16", op);
  require(p.n.front() % 8 == 0, "{}: n, got {}, expected a multiple of 8", op, p.n.front());
  require(plan.transport == Transport::pull ||
              (plan.transport == Transport::store && p.op == Op::gemm_ar),
          "{}: transport, got {}, expected pull{}", op, name_of(plan.transport),
          p.op == Op::gemm_ar ? " or store" : "");
  require(plan.chunk_rows > 0, "{}: chunk_rows, got {}, expected at least 1", op, plan.chunk_rows);
  require(!plan.wide || t.weight != nullptr,
          "{}: partials of the sum alone, got fp32, expected the operands' type, {}", op,
          name_of(p.dtype));
  const auto bytes =
      static_cast<std::size_t>(plan::gemm_reduce_staging_bytes(p, partials_of(p, plan)));
  require(bytes <= calls.data_bytes(),
          "{}: m {} n {}, got {} bytes of staging, expected at most {}", op, p.m, p.n.front(),
          bytes, calls.data_bytes());
  require(static_cast<std::size_t>(s.num_flags()) <= calls.flags(),
          "{}: m {}, got {} flags, expected at most {}", op, p.m, s.num_flags(), calls.flags());
  require_aligned(t.x, "x");
  require_aligned(t.weight, "weight");
  require_aligned(t.bias, "bias");
  require_aligned(t.out, "out");
  require_aligned(t.residual, "residual");
}

/// A given partial into the slot, where peers find it. Own rows are read where they are.
void enqueue_given(const RankCalls& calls, const schedule::ReduceRows& s, const Problem& p,
                   const GemmReduceTensors& t, std::byte* slot, cudaStream_t stream) {
  const schedule::RowRange own =
      p.op == Op::gemm_ar && !s.share ? schedule::RowRange{} : s.rows[calls.group().rank()];
  const auto copy = [&](Index begin, Index end) {
    if (begin == end || p.ranks == 1) return;
    check(cudaMemcpyAsync(slot + begin, static_cast<const std::byte*>(t.x) + begin,
                          static_cast<std::size_t>(end - begin), cudaMemcpyDeviceToDevice, stream),
          "the partial sums that were given");
  };
  copy(0, 16 * own.begin);
  copy(16 * own.end, p.m * row_bytes(p));
}

}  // namespace

SlotNeeds GemmReduce::needs(const Problem& p, DType partials) {
  return {static_cast<std::size_t>(p.ranks * schedule::kMaxSumChunks),
          static_cast<std::size_t>(plan::gemm_reduce_staging_bytes(p, partials))};
}

void GemmReduce::run(const Problem& p, const plan::GemmReducePlan& asked,
                     const GemmReduceTensors& t, cudaStream_t stream) {
  const auto op = name_of(p.op);
  if (p.m == 0) return calls_.admit(op, plan::agreement_hash(p, {}), p.op, stream);
  const int rank = calls_.group().rank();
  plan::GemmReducePlan plan = asked;
  plan.gemm = calls_.fit(asked.gemm);
  WideSum sum;
  sum.schedule = plan::reduce_rows_schedule(p, plan, rank);
  require_call(p, plan, t, calls_, sum.schedule);
  calls_.require_place(op, sum.schedule.workers, 0);
  const bool given = t.weight == nullptr;
  const unsigned slot = calls_.begin_call(op, p.op, stream);
  std::byte* const partial = calls_.memory().local() + calls_.data_at(slot);
  const plan::GemmProblem product{p.m, p.n.front(), p.k, p.dtype};
  if (given)
    enqueue_given(calls_, sum.schedule, p, t, partial, stream);
  else if (plan.wide)
    launch_wide_gemm(plan.gemm, product, t.x, t.weight, partial, calls_.scratch(), stream);
  else
    GemmCall(plan.gemm, product, {t.x, t.weight, nullptr, partial, Activation::none},
             calls_.scratch())
        .launch(stream);
  const std::uint32_t hash =
      plan::agreement_hash(p, agreed_plan(p, plan)) ^ (given ? 0x5bd1e995U : 0U);
  sum.call = calls_.params(slot, hash, p.op);
  sum.partials = calls_.data_at(slot);
  sum.own = given ? static_cast<const std::byte*>(t.x) : partial;
  sum.bias = static_cast<const std::byte*>(t.bias);
  sum.out = static_cast<std::byte*>(t.out);
  sum.row_units = static_cast<std::int32_t>(row_bytes(p) / 16);
  sum.out_begin = p.op == Op::gemm_rs ? sum.schedule.rows[rank].begin : 0;
  sum.dtype = p.dtype;
  sum.activation = p.activation;
  sum.residual = static_cast<const std::byte*>(t.residual);
  sum.results = sum.partials + static_cast<std::size_t>(2 * p.m * row_bytes(p));
  const bool early = !given && !calls_.shares_device();
  check(plan.wide ? enqueue_wide_sum(sum, early, stream) : enqueue_sum(sum, early, stream),
        "the sum of partials");
}

}  // namespace tilelace::cuda
