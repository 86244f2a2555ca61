// SPDX-License-Identifier: Apache-2.0
// Small kernels of ag_gemm that handle rows only: waiting for all of them, and copying them to the
// caller.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/gather/gather_push.h"

namespace tilelace::cuda {

/// Waits for the headers of all peers, then for every chunk of their rows. A call's first kernel
/// enters it, and its last one counts it.
struct AwaitRows {
  CallParams call;
  int max_chunks = 1;                       ///< flag of source r: r * max_chunks + chunk
  int chunks[schedule::kMaxGpuRanks] = {};  ///< of each rank's shard
};
/// Later work in the stream finds all rows in the slot, unless this rank was stopped.
[[nodiscard]] cudaError_t enqueue_await(const AwaitRows&, cudaStream_t);

/// Bytes [own_begin, own_end) of `to` come from `own`, the others from the slot; all are multiples
/// of 16. Writes nothing once the rank is stopped: the rows may be another call's.
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
