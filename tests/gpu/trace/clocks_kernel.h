// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace tilelace::gpu_test {

/// In each rank's memory; words are written by the other side.
struct ClockWords {
  std::uint32_t ping, pong;
  std::uint64_t pong_ns;
};

struct ClockTrip {
  std::int64_t round_ns;   ///< shortest round trip; 0: none came back
  std::int64_t offset_ns;  ///< the other side's clock minus the own one
};

/// `rounds` round trips that this rank begins, or answers; words are zero before. Bounded.
[[nodiscard]] cudaError_t enqueue_ping(ClockWords* own, ClockWords* other, int rounds,
                                       ClockTrip* trip, cudaStream_t stream);
[[nodiscard]] cudaError_t enqueue_pong(ClockWords* own, ClockWords* other, int rounds,
                                       cudaStream_t stream);

}  // namespace tilelace::gpu_test
