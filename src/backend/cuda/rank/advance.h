// SPDX-License-Identifier: Apache-2.0
// A kernel of one thread that increments an epoch, for tests of copies that belong to no call.
#pragma once
#include <cuda_runtime_api.h>

#include "comm/signal.h"

namespace tilelace::cuda {

/// Enqueues the kernel; may be captured. `epoch`: device memory of this rank.
[[nodiscard]] cudaError_t enqueue_advance(comm::Flag* epoch, cudaStream_t stream);

}  // namespace tilelace::cuda
