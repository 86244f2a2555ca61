// SPDX-License-Identifier: Apache-2.0
// Calls without rows: those that a user makes, and those that bring the count of calls to the side
// that the slots of the calls behind it were chosen for.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/call_params.h"
#include "backend/cuda/device/start.h"

namespace tilelace::cuda {

/// A kernel of one warp: where the number of calls so far, mod 2, is not `parity`, it makes a call
/// without rows (enters, counts, waits for the headers of all peers); else nothing. Whatever
/// it finds, every peer finds the same, as all make the same calls. Start::early: the kernel behind
/// it may begin under the end of the kernel before it, as without it. May be captured.
[[nodiscard]] cudaError_t enqueue_align(const CallParams&, unsigned parity, Start, cudaStream_t);

/// All of a call that has no rows: enters, waits for the headers of all peers, counts.
[[nodiscard]] cudaError_t enqueue_admit(const CallParams&, cudaStream_t);

/// Loads both, so that a later launch does not.
[[nodiscard]] cudaError_t load_empty_calls();

}  // namespace tilelace::cuda
