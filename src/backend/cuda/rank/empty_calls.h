// SPDX-License-Identifier: Apache-2.0
// Calls without rows. A user makes some of them. The others, aligns, give the count of calls the
// parity that the slots of later calls need.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/call_params.h"
#include "backend/cuda/device/start.h"

namespace tilelace::cuda {

/// Enqueues a kernel of one warp. If the number of calls so far, mod 2, is not `parity`, the kernel
/// makes a call without rows: it sends headers, counts the call and waits for the headers of all
/// peers. Every peer does the same, since all make the same calls. Start::early: this kernel may
/// start before the previous kernel ends, and the next one before this one ends. May be captured.
[[nodiscard]] cudaError_t enqueue_align(const CallParams&, unsigned parity, Start, cudaStream_t);

/// Makes a whole call without rows: sends headers, counts the call, and waits for peers' headers.
[[nodiscard]] cudaError_t enqueue_admit(const CallParams&, cudaStream_t);

/// Loads both kernels now, so that launches need not load them.
[[nodiscard]] cudaError_t load_empty_calls();

}  // namespace tilelace::cuda
