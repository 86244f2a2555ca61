// SPDX-License-Identifier: Apache-2.0
// A kernel that ends when a shard has landed: what follows in its stream may read it.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/record.h"

namespace tilelace::gpu_test {

struct Landed {
  const comm::Flag* flag = nullptr;
  const comm::Flag* epoch = nullptr;  ///< device memory: what the flag has to reach
  std::int32_t source = 0;
  cuda::WaitContext wait;
};

[[nodiscard]] cudaError_t enqueue_landed(const Landed& landed, cudaStream_t stream);

}  // namespace tilelace::gpu_test
