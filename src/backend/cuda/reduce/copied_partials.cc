// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/reduce/copied_partials.h"

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/reduce/copied_rows.h"
#include "plan/base/problem.h"
#include "plan/base/schedules.h"

namespace tilelace::cuda {
using plan::input_row_bytes;
using plan::row_bytes;
using schedule::Index;

void CopiedPartials::multiply_by_shards(const OpCall& call, const plan::CopiedPartialsWay& plan,
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

void CopiedPartials::run(const OpCall& call, const plan::CopiedPartialsWay& asked) {
  const Problem& p = call.problem;
  const cudaStream_t stream = call.stream();
  const int rank = calls_.group().rank();
  plan::CopiedPartialsWay plan = asked;
  plan.gemm = calls_.fit(asked.gemm);
  CopiedSum rows;
  rows.schedule = plan::copied_rows_schedule(p, plan, rank);
  rows.schedule.workers = calls_.fit_ctas(rows.schedule.workers);
  require(call.multiplies(),
          "gemm_rs: weight: got none, expected one: a plan of path medium multiplies x by the "
          "weight itself");
  calls_.require_room("gemm_rs",
                      {.bytes = static_cast<std::size_t>(plan::copied_staging_bytes(p))});
  const unsigned slot = calls_.begin_call("gemm_rs", p.op, stream);
  rows.partials = calls_.data_at(slot);
  multiply_by_shards(call, plan, slot);
  rows.call = calls_.params(slot, call.hash, p.op);
  rows.bias = static_cast<const std::byte*>(call.bias());
  rows.residual = static_cast<const std::byte*>(call.tensors.residual.data);
  rows.out = static_cast<std::byte*>(call.out());
  rows.row_units = static_cast<std::int32_t>(row_bytes(p) / 16);
  rows.out_begin = rows.schedule.rows[rank].begin;
  rows.dtype = p.dtype;
  rows.activation = p.activation;
  rows.incoming = rows.partials + static_cast<std::size_t>(p.m * row_bytes(p));
  rows.pitch = static_cast<std::size_t>(plan::copied_pitch(p));
  // Copies lie between it and the products.
  const Start start = calls_.start(rows.schedule.workers, false);
  check(enqueue_copied_sum(rows, start, stream), "adding copied partials");
}

}  // namespace tilelace::cuda
