// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/collect_tiles.h"
#include "backend/cuda/device/collect.h"

namespace tilelace::cuda {
namespace {

constexpr int kThreads = 256;

TILELACE_DEVICE bool enter(const CallParams& c, std::uint32_t epoch) {
  __syncthreads();  // everybody has the number before it is counted
  bool good = true;
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) count_call(c, epoch);
    good = wait_admission(c, epoch);
  }
  return __syncthreads_and(good ? 1 : 0) != 0;  // stays: `good` alone; flags order the rest
}

__global__ void __launch_bounds__(kThreads) collect_kernel(const __grid_constant__ CollectTiles p) {
  const std::uint32_t epoch = call_number(p.call);
  const Trace trace = make_trace(p);
  const auto note = [&](TraceKind kind) {
    if (threadIdx.x == 0) trace.add(kind, kCopyLane);
  };
  if (threadIdx.x == 0) trace.begin(kCopyLane);
  const bool good = enter(p.call, epoch);
  note(TraceKind::admitted);
  Collect collect(p.call, p.order, p.shared, p.columns, {static_cast<int>(threadIdx.x), kThreads},
                  epoch);
  if (good)
    schedule::run_collect(p.order, p.shared.flags, static_cast<int>(blockIdx.x),
                          static_cast<int>(gridDim.x), collect);
  note(TraceKind::copied);
  note(TraceKind::exit);
}

}  // namespace

cudaError_t enqueue_collect(const CollectTiles& tiles, int ctas, cudaStream_t stream) {
  collect_kernel<<<static_cast<unsigned>(ctas), kThreads, 0, stream>>>(tiles);
  return cudaGetLastError();
}

cudaError_t load_collect_tiles() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, collect_kernel);
}

}  // namespace tilelace::cuda
