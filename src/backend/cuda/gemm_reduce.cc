// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm_reduce.h"

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/gemm.h"
#include "backend/cuda/gemm_launch.h"
#include "backend/cuda/push_rows.h"
#include "backend/cuda/reduce_rows.h"
#include "backend/cuda/trace.h"
#include "plan/problem.h"
#include "plan/schedules.h"

namespace tilelace::cuda {
namespace {

using schedule::Index;

/// The choices that must agree, as the agreement hash knows them. Who made a partial with which
/// tile does not matter.
Plan agreed_plan(const Problem& p, const plan::GemmReducePlan& plan) {
  Plan agreed;
  agreed.op = p.op;
  agreed.path = Path::unfused;
  agreed.transport = plan.transport;
  agreed.chunk_rows = plan.chunk_rows;
  agreed.partials = p.dtype;
  return agreed;
}

/// Where nothing is multiplied.
std::uint32_t hash_of(bool given) { return given ? 0x5bd1e995U : 0U; }

/// Chunks count too.
std::uint32_t hash_of(const Problem& p, const plan::GemmReducePlan& plan,
                      const schedule::PushRows& s) {
  Plan agreed = agreed_plan(p, plan);
  agreed.chunk_rows = s.chunk_units;
  agreed.blocks = plan.shots;
  return plan::agreement_hash(p, agreed);
}

Index row_bytes(const Problem& p) { return p.n.front() * static_cast<Index>(size_of(p.dtype)); }

void require_call(const Problem& p, const GemmReduceTensors& t, const RankCalls& calls,
                  const SlotNeeds& needs) {
  const auto op = name_of(p.op);
  plan::check_problem(p);
  require(p.op != Op::ag_gemm, "{}: op, got {}, expected gemm_rs or gemm_ar", op, op);
  require(p.ranks == calls.group().ranks(), "{}: got a problem of {} ranks, expected {}", op,
          p.ranks, calls.group().ranks());
  require(p.dtype != DType::fp32, "{}: dtype, got fp32, expected bf16 or fp16", op);
  require(p.n.front() % 8 == 0, "{}: n, got {}, expected a multiple of 8", op, p.n.front());
  calls.require_room(op, needs);
  require_aligned(t.x, "x");
  require_aligned(t.weight, "weight");
  require_aligned(t.bias, "bias");
  require_aligned(t.out, "out");
  require_aligned(t.residual, "residual");
}

void require_pulled(const Problem& p, const plan::GemmReducePlan& plan) {
  const auto op = name_of(p.op);
  require(plan.transport == Transport::pull ||
              (plan.transport == Transport::store && p.op == Op::gemm_ar),
          "{}: transport, got {}, expected push, pull{}", op, name_of(plan.transport),
          p.op == Op::gemm_ar ? " or store" : "");
  require(plan.chunk_rows > 0, "{}: chunk_rows, got {}, expected at least 1", op, plan.chunk_rows);
}

void require_pushed(const Problem& p, int shots, const schedule::PushRows& s) {
  const auto op = name_of(p.op);
  const int most = p.op == Op::gemm_ar ? 2 : 1;
  require(shots >= 1 && shots <= most, "{}: shots, got {}, expected 1{}", op, shots,
          most > 1 ? " or 2" : "");
  require(s.rounds() <= schedule::kMaxPushRounds, "{}: rounds of a CTA, got {}, expected 1 to {}",
          op, s.rounds(), schedule::kMaxPushRounds);
}

/// A given partial into the slot, where peers find it. Own rows are read where they are.
void enqueue_given(const schedule::ReduceRows& s, const Problem& p, const GemmReduceTensors& t,
                   std::byte* slot, cudaStream_t stream) {
  const schedule::RowRange own =
      p.op == Op::gemm_ar && !s.share ? schedule::RowRange{} : s.rows[s.rank];
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

SlotNeeds GemmReduce::needs(const Problem& p) {
  return {static_cast<std::size_t>(2 * p.ranks * schedule::kMaxSumChunks),
          static_cast<std::size_t>(plan::gemm_reduce_staging_bytes(p))};
}

const std::byte* GemmReduce::enqueue_partial(const Problem& p, const plan::GemmReducePlan& plan,
                                             const GemmReduceTensors& t, unsigned slot,
                                             cudaStream_t stream) {
  if (t.weight == nullptr) return static_cast<const std::byte*>(t.x);
  std::byte* const partial = calls_.memory().local() + calls_.data_at(slot);
  const plan::GemmProblem product{p.m, p.n.front(), p.k, p.dtype};
  GemmCall(plan.gemm, product, {t.x, t.weight, nullptr, partial, Activation::none},
           calls_.scratch())
      .launch(stream);
  return partial;
}

void GemmReduce::run(const Problem& p, const plan::GemmReducePlan& asked,
                     const GemmReduceTensors& t, cudaStream_t stream) {
  const auto op = name_of(p.op);
  if (p.m == 0) return calls_.admit(op, plan::agreement_hash(p, {}), p.op, stream);
  plan::GemmReducePlan plan = asked;
  plan.gemm = calls_.fit(asked.gemm);
  if (plan.transport == Transport::push) return run_pushed(p, plan, t, stream);
  const int rank = calls_.group().rank();
  SumRows sum;
  sum.schedule = plan::reduce_rows_schedule(p, plan, rank);
  sum.schedule.workers = calls_.fit_ctas(sum.schedule.workers);
  require_pulled(p, plan);
  require_call(p, t, calls_,
               {static_cast<std::size_t>(sum.schedule.num_flags()),
                static_cast<std::size_t>(plan::pulled_bytes(p))});
  const bool given = t.weight == nullptr;
  const unsigned slot = calls_.begin_call(op, p.op, stream);
  if (given)
    enqueue_given(sum.schedule, p, t, calls_.memory().local() + calls_.data_at(slot), stream);
  sum.own = enqueue_partial(p, plan, t, slot, stream);
  sum.call =
      calls_.params(slot, plan::agreement_hash(p, agreed_plan(p, plan)) ^ hash_of(given), p.op);
  sum.partials = calls_.data_at(slot);
  sum.bias = static_cast<const std::byte*>(t.bias);
  sum.out = static_cast<std::byte*>(t.out);
  sum.row_units = static_cast<std::int32_t>(row_bytes(p) / 16);
  sum.out_begin = p.op == Op::gemm_rs ? sum.schedule.rows[rank].begin : 0;
  sum.dtype = p.dtype;
  sum.activation = p.activation;
  sum.residual = static_cast<const std::byte*>(t.residual);
  const Start start = calls_.start(sum.schedule.workers, !given);
  check(enqueue_sum(sum, start, stream), "the sum of partials");
}

void GemmReduce::run_pushed(const Problem& p, const plan::GemmReducePlan& plan,
                            const GemmReduceTensors& t, cudaStream_t stream) {
  const auto op = name_of(p.op);
  const int rank = calls_.group().rank();
  const comm::DeviceMemory& memory = calls_.memory();
  PushSum sum;
  sum.schedule = plan::push_rows_schedule(p, plan.shots, rank, calls_.multiprocessors());
  sum.schedule.workers = calls_.fit_ctas(sum.schedule.workers);
  require_pushed(p, plan.shots, sum.schedule);
  sum.term_pitch = static_cast<std::size_t>(plan::pushed_pitch(p, plan.shots));
  const auto partial_bytes = static_cast<std::size_t>(p.m * row_bytes(p));
  require_call(p, t, calls_,
               {static_cast<std::size_t>(sum.schedule.num_flags()),
                partial_bytes + static_cast<std::size_t>(p.ranks - 1) * sum.term_pitch});
  const bool given = t.weight == nullptr;
  const unsigned slot = calls_.begin_call(op, p.op, stream);
  sum.own = enqueue_partial(p, plan, t, slot, stream);
  sum.call = calls_.params(slot, hash_of(p, plan, sum.schedule) ^ hash_of(given), p.op);
  sum.terms = calls_.data_at(slot) + partial_bytes;
  sum.bias = static_cast<const std::byte*>(t.bias);
  sum.out = static_cast<std::byte*>(t.out);
  sum.row_units = static_cast<std::int32_t>(row_bytes(p) / 16);
  sum.out_begin = p.op == Op::gemm_rs ? sum.schedule.rows[rank].begin : 0;
  // Sums take the place of partials that have been read.
  sum.sums = memory.base() + calls_.data_at(slot);
  sum.sums_stride = memory.stride();
  sum.dtype = p.dtype;
  sum.activation = p.activation;
  sum.residual = static_cast<const std::byte*>(t.residual);
  TILELACE_TRACE_TO(sum, "sum");
  const Start start = calls_.start(sum.schedule.workers, !given);
  check(enqueue_push_sum(sum, start, stream), "the sum of partials");
}

}  // namespace tilelace::cuda
