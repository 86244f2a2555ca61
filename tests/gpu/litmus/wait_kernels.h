// SPDX-License-Identifier: Apache-2.0
// The smallest call: every rank signals every peer and waits for every peer.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>

#include "backend/cuda/device/record.h"

namespace tilelace::gpu_test {

struct WaitCall {
  std::byte* base = nullptr;
  std::size_t stride = 0;
  std::int32_t rank = 0;
  std::int32_t ranks = 1;
  std::uint32_t epoch = 0;     ///< epoch to signal
  std::uint32_t awaited = 0;   ///< epoch to wait for
  comm::Flag* done = nullptr;  ///< this rank's flag, set to `epoch` when all peers have signalled
  cuda::WaitContext wait;
};

/// `ctas` CTAs wait, so that all SMs are occupied.
cudaError_t enqueue_wait_call(const WaitCall& call, int ctas, cudaStream_t stream);
/// values[i] = i * 3 + seed, to test whether the context still works.
cudaError_t enqueue_values(std::uint32_t* values, int count, std::uint32_t seed,
                           cudaStream_t stream);

}  // namespace tilelace::gpu_test
