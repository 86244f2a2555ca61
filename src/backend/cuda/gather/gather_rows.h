// SPDX-License-Identifier: Apache-2.0
// Small kernels of ag_gemm for rows as such: the wait for all of them, and their copy to the
// caller.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/gather/gather_push.h"

namespace tilelace::cuda {

/// Waits for the headers of all peers, then for every chunk of their rows; the call's first kernel
/// enters it, the last one counts it.
struct AwaitRows {
  CallParams call;
  int max_chunks = 1;                       ///< flag of source r: r * max_chunks + chunk
  int chunks[schedule::kMaxGpuRanks] = {};  ///< of each rank's shard
};
/// What comes next in the stream finds all rows in the slot, or this rank stopped.
[[nodiscard]] cudaError_t enqueue_await(const AwaitRows&, cudaStream_t);

/// Bytes [own_begin, own_end) of `to` come from `own`, all others from the slot; all of them
/// multiples of 16. Nothing is written once the rank is stopped: the rows may be another call's.
struct GatheredCopy {
  std::byte* to = nullptr;
  const std::byte* slot = nullptr;
  const std::byte* own = nullptr;
  std::int64_t own_begin = 0, own_end = 0, bytes = 0;
  const comm::AbortWord* stop = nullptr;
};
[[nodiscard]] cudaError_t enqueue_copy(const GatheredCopy&, cudaStream_t);

/// Loads both, so that a later launch does not.
[[nodiscard]] cudaError_t load_gather_rows();

}  // namespace tilelace::cuda
