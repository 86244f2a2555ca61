// SPDX-License-Identifier: Apache-2.0
// Calls without rows: those that a user makes, and aligns, which give the count of calls the parity
// that the slots of later calls need.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/call_params.h"
#include "backend/cuda/device/start.h"

namespace tilelace::cuda {

/// A kernel of one warp: if the number of calls so far, mod 2, is not `parity`, it makes a call
/// without rows (sends headers, counts the call, waits for the headers of all peers). Every peer
/// does the same, since all make the same calls. Start::early: the align may start while the kernel
/// before it ends, and so may the kernel after it. May be captured.
[[nodiscard]] cudaError_t enqueue_align(const CallParams&, unsigned parity, Start, cudaStream_t);

/// Makes a whole call without rows: sends headers, counts the call, waits for all peers' headers.
[[nodiscard]] cudaError_t enqueue_admit(const CallParams&, cudaStream_t);

/// Loads both kernels now, so that launches need not load them.
[[nodiscard]] cudaError_t load_empty_calls();

}  // namespace tilelace::cuda
