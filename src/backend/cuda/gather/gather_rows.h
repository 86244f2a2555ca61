// SPDX-License-Identifier: Apache-2.0
// Small kernels of ag_gemm: one waits for all rows, the other copies the gathered rows to the
// caller.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/call_params.h"
#include "schedule/rows.h"

namespace tilelace::cuda {

/// Waits for the headers of all peers, then for every chunk of their rows. As the call's first
/// kernel it also sends this rank's headers; as the last kernel it counts the call.
struct AwaitRows {
  CallParams call;
  int max_chunks = 1;                       ///< chunk c of rank r has flag r * max_chunks + c
  int chunks[schedule::kMaxGpuRanks] = {};  ///< number of chunks of each rank's shard
};
/// After this kernel all rows are in the slot, unless this rank was stopped.
[[nodiscard]] cudaError_t enqueue_await(const AwaitRows&, cudaStream_t);

/// Copies bytes [own_begin, own_end) of `to` from `own` and the other bytes from `slot`. Offsets
/// are multiples of 16. A stopped rank copies nothing, as the slot may have another call's rows.
struct GatheredCopy {
  std::byte* to = nullptr;
  const std::byte* slot = nullptr;
  const std::byte* own = nullptr;
  std::int64_t own_begin = 0, own_end = 0, bytes = 0;
  const comm::AbortWord* stop = nullptr;
};
[[nodiscard]] cudaError_t enqueue_copy(const GatheredCopy&, cudaStream_t);

/// Loads both kernels now, so that launches need not load them.
[[nodiscard]] cudaError_t load_gather_rows();

}  // namespace tilelace::cuda
