// SPDX-License-Identifier: Apache-2.0
// Small kernels of ag_gemm: the sends of transport `store`, and the wait of a call without rows.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/call_params.h"
#include "backend/cuda/device/start.h"
#include "backend/cuda/device/trace.h"
#include "schedule/ag_gemm.h"

namespace tilelace::cuda {

struct GatherPush {
  schedule::AgGemm schedule;  ///< its workers are the CTAs, its borders are `borders`
  schedule::Index borders[schedule::kMaxGpuRanks + 1] = {};
  bool stage = false;  ///< own rows go into the own slot too
  CallParams call;
  std::size_t rows = 0;        ///< offset of the call's slot
  std::int64_t row_bytes = 0;  ///< rows are contiguous
  const std::byte* input = nullptr;
  TILELACE_TRACE_SINK
};

/// Sends this rank's rows to every peer. Overlaps with the kernel after it, and with Start::early
/// also with the kernel before it; may be captured.
[[nodiscard]] cudaError_t enqueue_push(const GatherPush&, Start, cudaStream_t);

/// Loads the kernel, so that a later launch does not.
[[nodiscard]] cudaError_t load_gather_push();

}  // namespace tilelace::cuda
