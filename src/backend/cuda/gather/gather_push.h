// SPDX-License-Identifier: Apache-2.0
// A small kernel of ag_gemm. With transport `store` it sends rows, unless the GEMM sends them.
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
  schedule::AgGemm schedule;  ///< workers are CTAs; the kernel makes the schedule use `borders`
  schedule::Index borders[schedule::kMaxGpuRanks + 1] = {};
  bool stage = false;  ///< whether to copy this rank's rows into its own slot, too
  CallParams call;
  std::size_t rows = 0;        ///< offset of the call's gathered rows
  std::int64_t row_bytes = 0;  ///< bytes of a row; rows are contiguous
  const std::byte* input = nullptr;
  TILELACE_TRACE_SINK
};

/// Enqueues a kernel that sends this rank's rows to every peer. The kernel overlaps the next kernel
/// and, with Start::early, also the previous kernel. May be captured.
[[nodiscard]] cudaError_t enqueue_push(const GatherPush&, Start, cudaStream_t);

/// Loads the kernel now, so that launches need not load it.
[[nodiscard]] cudaError_t load_gather_push();

}  // namespace tilelace::cuda
