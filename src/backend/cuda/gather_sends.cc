// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/gather_call.h"
#include "backend/cuda/gather_push.h"
#include "backend/cuda/trace.h"

namespace tilelace::cuda {
namespace {

using schedule::Index;

/// All copies of the call come before its kernels: with few hardware queues a kernel that waits
/// must not stand before what it waits for.
void enqueue_copies(const RankCalls& calls, CopyEngine& engine, const GatherCall& c,
                    cudaStream_t stream) {
  const Index bytes = c.row_bytes();
  const CopyWaits waits{calls.params(c.slot, c.hash, Op::ag_gemm).wait, calls.granted()};
  GatherPlace place;
  place.base = calls.memory().base();
  place.stride = calls.memory().stride();
  place.flags = calls.flags_at(c.slot);
  place.rows = calls.data_at(c.slot);
  place.input = static_cast<const std::byte*>(c.tensors.a);
  place.row_pitch = place.input_pitch = place.row_bytes = bytes;
  place.waits = &waits;
  engine.carry(calls.next(c.slot));
  engine.fork(stream);
  GatherCopyVerbs verbs(engine, c.schedule, place);
  run_copy(c.schedule, verbs);
}

void enqueue_pushes(const RankCalls& calls, const GatherCall& c, cudaStream_t stream) {
  GatherPush push;
  push.schedule = c.schedule;
  push.schedule.workers = static_cast<int>(c.schedule.chunks(c.schedule.rank).count());
  for (int r = 0; r <= c.problem.ranks; ++r) push.borders[r] = c.schedule.split.begin(r);
  push.stage = c.plan.whole;
  push.call = calls.params(c.slot, c.hash, Op::ag_gemm);
  push.rows = calls.data_at(c.slot);
  push.row_bytes = c.row_bytes();
  push.input = static_cast<const std::byte*>(c.tensors.a);
  TILELACE_TRACE_TO(push, "push");
  check(enqueue_push(push, stream), "ag_gemm: the push");
}

}  // namespace

void enqueue_sends(const RankCalls& calls, CopyEngine& engine, const GatherCall& c,
                   cudaStream_t stream) {
  if (c.copied()) return enqueue_copies(calls, engine, c, stream);
  if (c.pushed()) enqueue_pushes(calls, c, stream);
}

}  // namespace tilelace::cuda
