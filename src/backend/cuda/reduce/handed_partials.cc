// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/reduce/handed_partials.h"

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/reduce/hand_rows.h"
#include "plan/base/problem.h"
#include "plan/base/schedules.h"

namespace tilelace::cuda {
using plan::input_row_bytes;
using plan::row_bytes;
using schedule::Index;

void HandedPartials::multiply_by_shards(const OpCall& call, const plan::HandedPartialsWay& plan,
                                        unsigned slot) {
  const Problem& p = call.problem;
  const cudaStream_t stream = call.stream();
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
    GemmTensors tensors = call.product_into(made);
    tensors.a = static_cast<const std::byte*>(tensors.a) + rows.begin * input_row_bytes(p);
    GemmCall(plan.gemm, {rows.size(), p.n.front(), p.k, p.dtype}, tensors, calls_.scratch())
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

void HandedPartials::run(const OpCall& call, const plan::HandedPartialsWay& asked) {
  const Problem& p = call.problem;
  const cudaStream_t stream = call.stream();
  const int rank = calls_.group().rank();
  plan::HandedPartialsWay plan = asked;
  plan.gemm = calls_.fit(asked.gemm);
  HandSum rows;
  rows.schedule = plan::hand_rows_schedule(p, plan, rank);
  rows.schedule.workers = calls_.fit_ctas(rows.schedule.workers);
  require(call.multiplies(),
          "gemm_rs: weight: got none, expected one: plan {} multiplies x by the weight itself",
          plan::name_of(plan.way));
  calls_.require_room("gemm_rs",
                      {static_cast<std::size_t>(schedule::num_handed_flags(rows.schedule)),
                       static_cast<std::size_t>(plan::gemm_hand_staging_bytes(p))});
  const bool copied = plan.way == schedule::HandWay::copied;
  const unsigned slot = calls_.begin_call("gemm_rs", p.op, stream);
  rows.partials = calls_.data_at(slot);
  if (copied)
    multiply_by_shards(call, plan, slot);
  else
    GemmCall(plan.gemm, {p.m, p.n.front(), p.k, p.dtype},
             call.product_into(calls_.memory().local() + rows.partials), calls_.scratch())
        .launch(stream);
  rows.call = calls_.params(slot, call.hash, p.op);
  rows.bias = static_cast<const std::byte*>(call.bias());
  rows.residual = static_cast<const std::byte*>(call.tensors.residual.data);
  rows.out = static_cast<std::byte*>(call.out());
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
