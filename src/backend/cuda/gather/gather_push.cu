// SPDX-License-Identifier: Apache-2.0
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/device/call.h"
#include "backend/cuda/device/early_launch.h"
#include "backend/cuda/device/transfer.h"
#include "backend/cuda/gather/gather_push.h"

namespace tilelace::cuda {
namespace {

constexpr int kThreads = 512;

/// Verbs of run_sends: the CTA moves chunks, 16 bytes a thread at a time. Flags are raised at the
/// end, side by side: each costs a round trip to its peer.
struct PushVerbs {
  const GatherPush& p;
  std::uint32_t epoch;
  Crew crew{static_cast<int>(threadIdx.x), kThreads};
  comm::Flag* mine = nullptr;  ///< the flag that this thread will raise
  int signals = 0;

  TILELACE_DEVICE void push(const schedule::GatherTransfer& t) const {
    const std::int64_t own = t.rows.begin - p.borders[p.schedule.rank];
    copy_by_threads(crew, p.call.memory_at(t.peer) + p.rows + t.rows.begin * p.row_bytes,
                    p.input + own * p.row_bytes,
                    static_cast<std::size_t>(t.rows.size() * p.row_bytes));
  }
  TILELACE_DEVICE void stage(const schedule::GatherTransfer& t) const { push(t); }
  TILELACE_DEVICE void signal(int peer, schedule::Index flag) {
    if (signals++ == crew.thread) mine = p.call.flags_at(peer) + flag;
  }
  /// Own rows are where they are; nobody else's pass through here.
  TILELACE_DEVICE void wait(schedule::Index /*flag*/) const {}

  TILELACE_DEVICE void publish_all() const {
    __syncthreads();
    if (mine != nullptr) cuda::signal(mine, epoch);
  }
  /// This CTA's own chunks are staged.
  TILELACE_DEVICE void publish_staged(const schedule::AgGemm& s) const {
    __syncthreads();  // stays: the product begins behind this kernel's end
    comm::Flag* const flags = p.call.flags_at(s.rank) + s.rank * s.max_chunks();
    const int chunk = static_cast<int>(blockIdx.x) + crew.thread * s.workers;
    // stays: as above
    if (chunk < s.chunks(s.rank).count()) cuda::signal(flags + chunk, epoch);
  }
};

__global__ void __launch_bounds__(kThreads) push_kernel(const __grid_constant__ GatherPush p) {
  const Trace trace = make_trace(p);
  if (threadIdx.x == 0) trace.begin(kCopyLane);
  ptx::launch_dependents();
  ptx::wait_prerequisites();
  if (threadIdx.x == 0) trace.add(TraceKind::ready, kCopyLane);
  PushVerbs verbs{p, call_number(p.call)};
  if (blockIdx.x == 0 && threadIdx.x < 32) send_headers(p.call, verbs.epoch);
  schedule::AgGemm s = p.schedule;
  s.split.borders = p.borders;
  const int worker = static_cast<int>(blockIdx.x);
  schedule::run_sends(s, worker, verbs);
  if (threadIdx.x == 0) trace.add(TraceKind::written, kCopyLane);
  verbs.publish_all();
  if (threadIdx.x == 0) trace.add(TraceKind::given, kCopyLane);
  if (p.stage) {
    schedule::run_stage(s, worker, verbs);
    verbs.publish_staged(s);
  }
  if (threadIdx.x == 0) trace.add(TraceKind::exit, kCopyLane);
}

}  // namespace

cudaError_t enqueue_push(const GatherPush& push, Start start, cudaStream_t stream) {
  return launch_as(start, push_kernel, push.schedule.workers, kThreads, stream, push);
}

cudaError_t load_gather_push() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, push_kernel);
}

}  // namespace tilelace::cuda
