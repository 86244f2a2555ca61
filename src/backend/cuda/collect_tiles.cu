// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/collect_tiles.h"
#include "backend/cuda/device/call.h"

namespace tilelace::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kAtOnce = 4;  ///< 16-byte loads of a thread

/// What one CTA of a peer's product finished.
struct Part {
  int flag = -1;
  int owner = 0, section = 0;
  int row = 0, rows = 0, col = 0, cols = 0;
};

TILELACE_DEVICE Part part(const CollectTiles& p, int index) {
  const schedule::ShareOrder& o = p.order;
  const int cluster = p.cluster_rows * p.cluster_cols;
  for (int s = 0; s < o.count; ++s) {
    if (o.own(s)) continue;
    const int parts = o.tile_rows[s] * o.cols * cluster;
    if (index >= parts) {
      index -= parts;
      continue;
    }
    const int tile = index / cluster;
    const int cta = index % cluster;
    const schedule::GemmCell cell{tile % o.tile_rows[s], tile / o.tile_rows[s], s};
    Part found;
    found.owner = o.section[s].owner;
    found.flag = o.is_copied(cell) ? p.first_chunk + found.owner * o.copied + o.chunk(cell)
                                   : p.first_shared + o.partial(found.owner, cell) * cluster + cta;
    found.section = s;
    const int row = (cell.row * p.cluster_rows + cta % p.cluster_rows) * p.tile_rows;
    found.row = o.begin(s) + row;
    found.rows = max(0, min(p.tile_rows, o.end(s) - found.row));
    found.col = (cell.col * p.cluster_cols + cta / p.cluster_rows) * p.tile_cols;
    found.cols = max(0, min(p.tile_cols, p.columns - found.col));
    return found;
  }
  return {};
}

/// The same threads throughout: none copies before the flag is there.
TILELACE_DEVICE bool await(const CollectTiles& p, const Part& part, std::uint32_t epoch) {
  bool here = true;
  if (threadIdx.x == 0) {
    const auto* flags = reinterpret_cast<const comm::Flag*>(
        p.call.base + p.call.rank * p.call.stride + p.call.flags);
    const WaitPlace place{Role::copy, part.section, part.col, part.owner,
                          static_cast<std::uint32_t>(part.flag)};
    here = wait(p.call.wait, place, flags + part.flag, epoch) == comm::WaitStatus::reached;
  }
  return __syncthreads_and(here ? 1 : 0) != 0;
}

TILELACE_DEVICE void copy(const CollectTiles& p, const Part& part) {
  const int units = part.cols / 8;
  const int all = part.rows * units;
  const std::byte* const slot = p.call.base + p.call.rank * p.call.stride + p.results;
  for (int i = static_cast<int>(threadIdx.x); i < all; i += kAtOnce * kThreads) {
    uint4 v[kAtOnce];
    std::int64_t at[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int unit = i + u * kThreads;
      if (unit >= all) continue;
      at[u] = 2 * (std::int64_t{part.row + unit / units} * p.columns + part.col + unit % units * 8);
      v[u] = __ldcg(reinterpret_cast<const uint4*>(slot + at[u]));
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u)
      if (i + u * kThreads < all) *reinterpret_cast<uint4*>(p.out + at[u]) = v[u];
  }
}

TILELACE_DEVICE bool enter(const CallParams& c, std::uint32_t epoch) {
  __syncthreads();  // everybody has the number before it is counted
  bool good = true;
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) count_call(c, epoch);
    good = wait_admission(c, epoch);
  }
  return __syncthreads_and(good ? 1 : 0) != 0;
}

__global__ void __launch_bounds__(kThreads) collect_kernel(const __grid_constant__ CollectTiles p) {
  const std::uint32_t epoch = call_number(p.call);
  const Trace trace = make_trace(p);
  const auto note = [&](TraceKind kind, int argument) {
    if (threadIdx.x == 0) trace.add(kind, kCopyLane, argument);
  };
  if (threadIdx.x == 0) trace.begin(kCopyLane);
  bool good = enter(p.call, epoch);
  note(TraceKind::admitted, 0);
  for (int i = static_cast<int>(blockIdx.x); good; i += static_cast<int>(gridDim.x)) {
    const Part next = part(p, i);
    if (next.flag < 0) break;
    note(TraceKind::wait_tile, next.flag);
    good = await(p, next, epoch);
    note(TraceKind::flag, next.flag);
    if (good) copy(p, next);
    note(TraceKind::copied, next.flag);
  }
  note(TraceKind::exit, 0);
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
