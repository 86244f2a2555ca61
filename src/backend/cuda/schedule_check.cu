// SPDX-License-Identifier: Apache-2.0
// The role loops of all schedules under device verbs: shows that nvcc takes src/schedule as it is,
// without warnings and spills. Each actor reduces its list to a number, so nothing folds away.
#define TILELACE_DEVICE_LOOPS
#include "schedule/ag_gemm.h"
#include "schedule/gemm_reduce.h"
#include "schedule/share_tiles.h"

namespace tilelace::cuda {
namespace {

using schedule::GatherTile;
using schedule::GatherTransfer;
using schedule::Index;
using schedule::ReduceTile;
using schedule::ReduceTransfer;

/// Verbs that move nothing: they take down what they are asked for.
struct DigestVerbs {
  std::uint64_t digest = 14695981039346656037ULL;

  __device__ void add(std::int64_t value) {
    digest = (digest ^ static_cast<std::uint64_t>(value)) * 1099511628211ULL;
  }
  __device__ void add(int verb, const GatherTransfer& t) {
    add(verb), add(t.source), add(t.peer), add(t.chunk), add(t.rows.begin), add(t.rows.end);
  }
  __device__ void add(int verb, const GatherTile& t) {
    add(verb), add(t.source), add(t.rows.begin), add(t.rows.end), add(t.col);
  }
  __device__ void add(int verb, const ReduceTile& t) {
    add(verb), add(t.block), add(t.owner), add(t.index), add(t.rows.begin), add(t.col);
  }
  __device__ void add(int verb, const ReduceTransfer& t) {
    add(verb), add(t.block), add(t.owner), add(t.peer), add(t.chunk), add(t.rows.begin);
  }

  __device__ void signal(int peer, Index flag) { add(1), add(peer), add(flag); }
  __device__ void signal_header(int peer) { add(2), add(peer); }
  __device__ void wait(Index flag) { add(3), add(flag); }
  __device__ void admit() { add(4); }

  __device__ void stage(const GatherTransfer& t) { add(5, t); }
  __device__ void push(const GatherTransfer& t) { add(6, t); }
  __device__ void pull(const GatherTransfer& t) { add(7, t); }
  __device__ void deliver(const GatherTransfer& t) { add(8, t); }
  __device__ void compute(const GatherTile& t) { add(9, t); }
  __device__ void store(const GatherTile& t) { add(10, t); }

  __device__ void compute(const ReduceTile& t) { add(9, t); }
  __device__ void store(const ReduceTile& t) { add(10, t); }
  __device__ void reduce(const ReduceTile& t) { add(11, t); }
  __device__ void partial(const ReduceTile& t) { add(12, t); }
  __device__ void store_partial(const ReduceTile& t, int peer) { add(13, t), add(peer); }
  __device__ void store_result(const ReduceTile& t, int peer) { add(14, t), add(peer); }
  __device__ void park(const ReduceTile& t) { add(15, t); }
  __device__ void unpark(const ReduceTile& t) { add(16, t); }
  __device__ void send_partial(const ReduceTransfer& t) { add(17, t); }
  __device__ void fetch_partial(const ReduceTransfer& t) { add(18, t); }
  __device__ void send_result(const ReduceTransfer& t) { add(19, t); }
  __device__ void fetch_result(const ReduceTransfer& t) { add(20, t); }
  __device__ void deliver(const ReduceTransfer& t) { add(8, t); }

  __device__ void wait_for(const schedule::SharedPart& p) { add(3), add(p.flag); }
  __device__ void deliver(const schedule::SharedPart& p) {
    add(8), add(p.owner), add(p.part), add(p.cell.row), add(p.cell.col), add(p.cell.section);
  }
};

/// Role copy: one thread.
template <class Schedule>
__global__ void digest_copy(const __grid_constant__ Schedule s, std::uint64_t* digest) {
  DigestVerbs verbs;
  run_copy(s, verbs);
  *digest = verbs.digest;
}

/// Role compute: one block a worker.
template <class Schedule>
__global__ void digest_compute(const __grid_constant__ Schedule s, std::uint64_t* digests) {
  DigestVerbs verbs;
  run_compute(s, static_cast<int>(blockIdx.x), verbs);
  digests[blockIdx.x] = verbs.digest;
}

/// Role collect: one block a worker.
__global__ void digest_collect(const __grid_constant__ schedule::ShareOrder o,
                               const __grid_constant__ schedule::ShareFlags flags,
                               std::uint64_t* digests) {
  DigestVerbs verbs;
  schedule::run_collect(o, flags, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), verbs);
  digests[blockIdx.x] = verbs.digest;
}

template <class Kernel>
const void* address(Kernel* kernel) {
  return reinterpret_cast<const void*>(kernel);
}

}  // namespace

// Kernels have internal linkage; taking their addresses makes nvcc compile them.
extern const void* const kScheduleKernels[];
const void* const kScheduleKernels[] = {
    address(digest_copy<schedule::AgGemm>), address(digest_compute<schedule::AgGemm>),
    address(digest_copy<schedule::GemmReduce>), address(digest_compute<schedule::GemmReduce>),
    address(digest_collect)};

}  // namespace tilelace::cuda
