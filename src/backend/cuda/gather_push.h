// SPDX-License-Identifier: Apache-2.0
// Small kernels of ag_gemm: the sends of transport `store`, and the wait of a call without rows.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/call_params.h"
#include "backend/cuda/device/trace.h"
#include "backend/cuda/start.h"
#include "schedule/gather_order.h"

namespace tilelace::cuda {

struct GatherPush {
  schedule::AgGemm schedule;  ///< its workers are the CTAs; borders are those below
  schedule::Index borders[schedule::kMaxGpuRanks + 1] = {};
  bool stage = false;  ///< own rows go into the own slot, too
  CallParams call;
  std::size_t rows = 0;        ///< offset of the call's slot
  std::int64_t row_bytes = 0;  ///< rows lie one after the other
  const std::byte* input = nullptr;
  TILELACE_TRACE_SINK
};

/// Sends this rank's rows to every peer. Runs while the kernel after it begins, Start::early also
/// under the one before it; it may be captured.
[[nodiscard]] cudaError_t enqueue_push(const GatherPush&, Start, cudaStream_t);

/// All of a call that has no rows: enters, waits for the headers of all peers, counts.
[[nodiscard]] cudaError_t enqueue_admit(const CallParams&, cudaStream_t);

/// Loads both, so that a later launch does not.
[[nodiscard]] cudaError_t load_gather_push();

}  // namespace tilelace::cuda
