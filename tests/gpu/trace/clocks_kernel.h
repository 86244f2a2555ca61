// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace tilelace::gpu_test {

/// Words in the memory of each rank of a pair; the other rank writes them.
struct ClockWords {
  std::uint32_t ping, pong;
  std::uint64_t pong_ns;
};

struct ClockTrip {
  std::int64_t round_ns;   ///< shortest round trip; 0: no answer came
  std::int64_t offset_ns;  ///< the other rank's clock minus this rank's
};

/// Ping begins `rounds` round trips, pong answers. Words must be zero before. Waits are bounded.
[[nodiscard]] cudaError_t enqueue_ping(ClockWords* own, ClockWords* other, int rounds,
                                       ClockTrip* trip, cudaStream_t stream);
[[nodiscard]] cudaError_t enqueue_pong(ClockWords* own, ClockWords* other, int rounds,
                                       cudaStream_t stream);

}  // namespace tilelace::gpu_test
