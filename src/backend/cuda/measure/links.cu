// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device/transfer.h"
#include "backend/cuda/device/wait.h"
#include "backend/cuda/measure/links.h"

namespace tilelace::cuda::measure {
namespace {

constexpr int kMoverThreads = 1024;
constexpr std::uint32_t kThreadPieceBytes = kMoverThreads * 16 * 4;  // four vectors a thread

/// Piece i of a round: the peers take turns, each rank starting with the next one.
struct Round {
  const Links& l;
  std::uint32_t first;
  std::uint32_t step;
  std::uint32_t piece_bytes;

  __device__ std::uint32_t count() const {
    const auto pieces = static_cast<std::uint32_t>((l.bytes + piece_bytes - 1) / piece_bytes *
                                                   static_cast<std::size_t>(l.ranks - 1));
    return first < pieces ? (pieces - first + step - 1) / step : 0;
  }
  __device__ Piece operator()(std::uint32_t i) const {
    const std::uint32_t n = first + i * step;
    const auto peers = static_cast<std::uint32_t>(l.ranks - 1);
    const int peer = (l.rank + 1 + static_cast<int>(n % peers)) % l.ranks;
    const std::size_t at = static_cast<std::size_t>(n / peers) * piece_bytes;
    const int to = l.pull ? l.rank : peer;
    const int from = l.pull ? peer : l.rank;
    const std::size_t left = l.bytes - at;
    return {l.base + to * l.stride + l.slots + from * l.slot_bytes + at,
            l.base + from * l.stride + l.source + at,
            left < piece_bytes ? static_cast<std::uint32_t>(left) : piece_bytes};
  }
};

template <Landing kLanding>
__global__ void __launch_bounds__(32) bulk_kernel(const __grid_constant__ Links l) {
  extern __shared__ __align__(128) std::byte pieces[];
  __shared__ std::uint64_t barriers[kDepth];
  if (threadIdx.x != 0) return;
  cuda::BulkRing<kDepth> ring{cuda::ptx::shared_address(pieces),
                              cuda::ptx::shared_address(barriers), kPieceBytes};
  ring.init();
  const Round round{l, blockIdx.x, gridDim.x, kPieceBytes};
  ring.run<kLanding>(round.count(), round);
  cuda::bulk_complete();
}

template <Landing kLanding>
__global__ void __launch_bounds__(kMoverThreads) thread_kernel(const __grid_constant__ Links l) {
  const cuda::Crew crew{static_cast<int>(threadIdx.x), kMoverThreads};
  const Round round{l, blockIdx.x, gridDim.x, kThreadPieceBytes};
  for (std::uint32_t i = 0; i < round.count(); ++i) {
    const Piece p = round(i);
    if constexpr (kLanding == Landing::copy)
      cuda::copy_by_threads(crew, p.to, p.from, p.bytes);
    else
      cuda::add_by_threads<kLanding>(crew, p.to, p.from, p.bytes);
  }
}

__device__ comm::Flag* flag_of(const Meeting& m, int at, int writer) {
  return reinterpret_cast<comm::Flag*>(m.base + at * m.stride + writer * 64);
}

__global__ void barrier_kernel(const __grid_constant__ Meeting m) {
  const std::uint32_t epoch = *m.epoch + 1;
  __syncthreads();
  if (threadIdx.x == 0) *m.epoch = epoch;
  const int peer = static_cast<int>(threadIdx.x);
  if (peer == m.rank || peer >= m.ranks) return;
  cuda::signal(flag_of(m, peer, m.rank), epoch);
  cuda::wait(m.wait, {cuda::Role::copy, 0, -1, peer, static_cast<std::uint32_t>(peer)},
             flag_of(m, m.rank, peer), epoch);
}

__global__ void round_trip_kernel(const __grid_constant__ Meeting m, std::uint32_t first,
                                  std::uint32_t count) {
  const int peer = m.rank ^ 1;
  if (peer >= m.ranks) return;
  comm::Flag* const there = flag_of(m, peer, m.ranks + m.rank);
  const comm::Flag* const here = flag_of(m, m.rank, m.ranks + peer);
  for (std::uint32_t c = first + 1; c != first + 1 + count; ++c) {
    if (m.rank % 2 == 0) cuda::signal(there, c);
    if (cuda::wait(m.wait, {cuda::Role::copy, 0, -1, peer, 0}, here, c) !=
        comm::WaitStatus::reached)
      return;
    if (m.rank % 2 == 1) cuda::signal(there, c);
  }
}

/// Two small integers in bf16, so that sums of one term are exact, too.
__device__ std::uint32_t pattern(int rank, std::size_t i) {
  auto x = static_cast<std::uint32_t>(i) * 2654435761U ^ static_cast<std::uint32_t>(rank) * 40503U;
  x ^= x >> 15;
  x *= 2246822519U;
  x ^= x >> 13;
  return __float_as_uint(static_cast<float>(x & 127U)) >> 16 |
         (__float_as_uint(static_cast<float>(x >> 7 & 127U)) & 0xffff0000U);
}

__device__ std::size_t thread_of_grid() {
  return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__global__ void source_kernel(const __grid_constant__ Links l) {
  auto* const words = reinterpret_cast<std::uint32_t*>(l.base + l.rank * l.stride + l.source);
  const std::size_t threads = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = thread_of_grid(); i < l.bytes / 4; i += threads)
    words[i] = pattern(l.rank, i);
}

/// Adds up `found` over the block.
__device__ std::uint32_t sum_of_block(std::uint32_t found) {
  __shared__ std::uint32_t sums[32];
  const std::uint32_t warp = __reduce_add_sync(~0U, found);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = warp;
  __syncthreads();
  std::uint32_t all = 0;
  for (unsigned w = 0; w < blockDim.x / 32; ++w) all += sums[w];
  return all;
}

__global__ void compare_kernel(const __grid_constant__ Links l, std::uint32_t* wrong) {
  const std::size_t threads = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  std::uint32_t found = 0;
  for (int s = 0; s < l.ranks; ++s) {
    if (s == l.rank) continue;
    const auto* const words = reinterpret_cast<const std::uint32_t*>(l.base + l.rank * l.stride +
                                                                     l.slots + s * l.slot_bytes);
    for (std::size_t i = thread_of_grid(); i < l.bytes / 4; i += threads)
      if (words[i] != pattern(s, i)) ++found;
  }
  found = sum_of_block(found);
  if (threadIdx.x == 0) wrong[blockIdx.x] += found;
}

template <class Kernel>
cudaError_t load(Kernel* kernel) {
  cudaFuncAttributes unused{};
  return cudaFuncGetAttributes(&unused, reinterpret_cast<const void*>(kernel));
}

template <Landing kLanding>
cudaError_t launch_bulk(const Links& l, int ctas, cudaStream_t stream) {
  bulk_kernel<kLanding><<<static_cast<unsigned>(ctas), 32, kDepth * kPieceBytes, stream>>>(l);
  return cudaGetLastError();
}

template <Landing kLanding>
cudaError_t launch_threads(const Links& l, int ctas, cudaStream_t stream) {
  thread_kernel<kLanding><<<static_cast<unsigned>(ctas), kMoverThreads, 0, stream>>>(l);
  return cudaGetLastError();
}

}  // namespace

cudaError_t prepare_links() {
  constexpr auto kAttribute = cudaFuncAttributeMaxDynamicSharedMemorySize;
  for (const cudaError_t status :
       {cudaFuncSetAttribute(bulk_kernel<Landing::copy>, kAttribute, kDepth * kPieceBytes),
        cudaFuncSetAttribute(bulk_kernel<Landing::add_bf16>, kAttribute, kDepth * kPieceBytes),
        load(thread_kernel<Landing::copy>), load(thread_kernel<Landing::add_bf16>),
        load(barrier_kernel), load(round_trip_kernel), load(source_kernel), load(compare_kernel)})
    if (status != cudaSuccess) return status;
  return cudaSuccess;
}

cudaError_t enqueue_move(Mover mover, const Links& l, int ctas, cudaStream_t stream) {
  switch (mover) {
    case Mover::bulk: return launch_bulk<Landing::copy>(l, ctas, stream);
    case Mover::bulk_add: return launch_bulk<Landing::add_bf16>(l, ctas, stream);
    case Mover::threads: return launch_threads<Landing::copy>(l, ctas, stream);
    case Mover::threads_add: return launch_threads<Landing::add_bf16>(l, ctas, stream);
    case Mover::copy_engine: break;
  }
  return cudaErrorInvalidValue;
}

cudaError_t enqueue_barrier(const Meeting& m, cudaStream_t stream) {
  barrier_kernel<<<1, 32, 0, stream>>>(m);
  return cudaGetLastError();
}

cudaError_t enqueue_round_trips(const Meeting& m, std::uint32_t first, std::uint32_t count,
                                cudaStream_t stream) {
  round_trip_kernel<<<1, 1, 0, stream>>>(m, first, count);
  return cudaGetLastError();
}

cudaError_t enqueue_source(const Links& l, cudaStream_t stream) {
  source_kernel<<<264, 512, 0, stream>>>(l);
  return cudaGetLastError();
}

cudaError_t enqueue_compare(const Links& l, std::uint32_t* wrong, cudaStream_t stream) {
  compare_kernel<<<kCompareBlocks, 512, 0, stream>>>(l, wrong);
  return cudaGetLastError();
}

}  // namespace tilelace::cuda::measure
