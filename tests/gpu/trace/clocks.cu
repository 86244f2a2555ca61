// SPDX-License-Identifier: Apache-2.0
#include "clocks_kernel.h"
#include "comm/cuda_atomics.h"

namespace tilelace::gpu_test {
namespace {

using Atomics = comm::CudaAtomics;

constexpr std::int64_t kBoundNs = 2'000'000'000;

__device__ bool await(const std::uint32_t* word, std::uint32_t value) {
  const std::int64_t end = Atomics::now_ns() + kBoundNs;
  while (Atomics::load_acquire(word) != value)
    if (Atomics::now_ns() > end) return false;
  return true;
}

__global__ void ping_kernel(ClockWords* own, ClockWords* other, int rounds, ClockTrip* trip) {
  ClockTrip best{0, 0};
  for (int i = 1; i <= rounds; ++i) {
    const std::int64_t sent = Atomics::now_ns();
    Atomics::store_release(&other->ping, static_cast<std::uint32_t>(i));
    if (!await(&own->pong, static_cast<std::uint32_t>(i))) break;
    const std::int64_t back = Atomics::now_ns();
    const std::int64_t round = back - sent;
    if (best.round_ns != 0 && round >= best.round_ns) continue;
    best.round_ns = round > 0 ? round : 1;
    best.offset_ns =
        static_cast<std::int64_t>(*static_cast<volatile std::uint64_t*>(&own->pong_ns)) - sent -
        round / 2;
  }
  *trip = best;
}

__global__ void pong_kernel(ClockWords* own, ClockWords* other, int rounds) {
  for (int i = 1; i <= rounds; ++i) {
    if (!await(&own->ping, static_cast<std::uint32_t>(i))) return;
    *static_cast<volatile std::uint64_t*>(&other->pong_ns) =
        static_cast<std::uint64_t>(Atomics::now_ns());
    Atomics::store_release(&other->pong, static_cast<std::uint32_t>(i));
  }
}

}  // namespace

cudaError_t enqueue_ping(ClockWords* own, ClockWords* other, int rounds, ClockTrip* trip,
                         cudaStream_t stream) {
  ping_kernel<<<1, 1, 0, stream>>>(own, other, rounds, trip);
  return cudaGetLastError();
}

cudaError_t enqueue_pong(ClockWords* own, ClockWords* other, int rounds, cudaStream_t stream) {
  pong_kernel<<<1, 1, 0, stream>>>(own, other, rounds);
  return cudaGetLastError();
}

}  // namespace tilelace::gpu_test
