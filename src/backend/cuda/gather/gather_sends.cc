// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/collectives/exchange_call.h"
#include "backend/cuda/gather/gather_call.h"
#include "backend/cuda/gather/gather_rows.h"
#include "backend/cuda/rank/await_flag.h"

namespace tilelace::cuda {
namespace {

using schedule::Index;

/// All copies of the call come before its kernels: with few hardware queues a kernel that waits
/// must not stand before what it waits for.
void enqueue_copies(const RankCalls& calls, CopyEngine& engine, const GatherCall& c,
                    cudaStream_t stream) {
  const Index bytes = c.row_bytes();
  const CopyWaits waits{calls.params(c.slot, c.hash, c.problem.op).wait, calls.granted()};
  GatherPlace place;
  place.base = calls.memory().base();
  place.stride = calls.memory().stride();
  place.flags = calls.flags_at(c.slot);
  place.rows = calls.data_at(c.slot);
  place.input = static_cast<const std::byte*>(c.tensors.input.data);
  place.row_pitch = place.input_pitch = place.row_bytes = bytes;
  place.waits = &waits;
  engine.carry(calls.next(c.slot));
  engine.fork(stream);
  GatherCopyVerbs verbs(engine, c.schedule, place);
  run_copy(c.schedule, verbs);
}

/// At every step the traffic is a permutation; chunks of a pair of ranks go in order.
void enqueue_exchanges(const RankCalls& calls, CopyEngine& engine, NcclRows& nccl,
                       const GatherCall& c, cudaStream_t stream) {
  const schedule::AgGemm& s = c.schedule;
  const Index bytes = c.row_bytes();
  const auto size = [&](const schedule::RowRange& rows) {
    return static_cast<std::size_t>(rows.size() * bytes);
  };
  std::byte* const slot = calls.memory().local() + calls.data_at(c.slot);
  auto* const flags =
      reinterpret_cast<comm::Flag*>(calls.memory().local() + calls.flags_at(c.slot));
  const WaitContext wait = calls.params(c.slot, c.hash, c.problem.op).wait;
  const Index own = s.split.shard(s.rank).begin;
  const schedule::Chunks given = s.chunks(s.rank);
  engine.fork(stream);
  for (int i = 1; i < s.ranks(); ++i) {
    NcclExchange e;
    e.from_rank = s.route.gather_order(s.rank, i);
    while (s.route.gather_order(e.to_rank, i) != s.rank) ++e.to_rank;
    const schedule::Chunks taken = s.chunks(e.from_rank);
    for (Index chunk = 0; chunk < std::max(given.count(), taken.count()); ++chunk) {
      const bool sends = chunk < given.count();
      const bool receives = chunk < taken.count();
      const schedule::RowRange out = sends ? given.rows(chunk) : schedule::RowRange{};
      const schedule::RowRange in = receives ? taken.rows(chunk) : schedule::RowRange{};
      e.from = static_cast<const std::byte*>(c.tensors.input.data) +
               (sends ? out.begin - own : 0) * bytes;
      e.sent = size(out);
      e.to = slot + in.begin * bytes;
      e.received = size(in);
      nccl.exchange(e, engine.stream());
      if (!receives) continue;
      const RaiseFlag raise{flags + s.landed(e.from_rank, chunk), calls.next(c.slot), wait};
      check(enqueue_raise_flag(raise, engine.stream()),
            "ag_gemm: raising the flag of received rows");
    }
  }
}

/// All ranks have the slot's rows at the same place, so none need staging.
void enqueue_exchange(const RankCalls& calls, const GatherCall& c, cudaStream_t stream) {
  const CallName name("ag_gemm", c.problem.op);
  const bool lines = c.exchange_plan.lines;
  const auto placed = plan::place_exchange<schedule::kMaxGpuRanks>(c.exchange, c.exchange_plan, 0);
  calls.require_room(name.text, slot_needs_of(placed.schedule, lines));
  std::byte* const rows = calls.memory().local() + calls.data_at(c.slot);
  ExchangeParams p = exchange_params(c.exchange, placed, c.tensors.input.data, rows);
  set_hash(p, c.hash);
  place_in_slot(p, calls, c.slot, lines, 0, name);
  p.call.last = c.alone();
  const std::ptrdiff_t own = p.takes[c.exchange.rank].data - calls.memory().local();
  for (int q = 0; q < c.problem.ranks; ++q) p.results[q] = p.call.memory_at(q) + own;
  const Start start = calls.start(exchange_ctas(c.exchange_plan), true);
  check(lines ? enqueue_lines(p, start, stream) : enqueue_direct(p, start, stream),
        "ag_gemm: the gather of rows");
}

}  // namespace

void enqueue_sends(const RankCalls& calls, CopyEngine& engine, NcclRows* nccl, const GatherCall& c,
                   cudaStream_t stream) {
  if (nccl != nullptr) return enqueue_exchanges(calls, engine, *nccl, c, stream);
  if (c.copied()) return enqueue_copies(calls, engine, c, stream);
  if (c.exchanged()) enqueue_exchange(calls, c, stream);
}

}  // namespace tilelace::cuda
