// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace tilelace::gpu_test {

/// Host memory that a kernel and the host share.
struct HoldPage {
  std::uint32_t release;  ///< set by the host, to end the CTAs
  std::uint32_t began;    ///< number of CTAs that have begun
  std::uint16_t multiprocessor[1024];
};

/// Enqueues CTAs that each take a whole multiprocessor until released, at most for two seconds.
[[nodiscard]] cudaError_t enqueue_hold(HoldPage* page, int ctas, int cluster, cudaStream_t stream);
[[nodiscard]] cudaError_t load_hold();

}  // namespace tilelace::gpu_test
