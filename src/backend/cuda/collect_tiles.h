// SPDX-License-Identifier: Apache-2.0
// The end of a fused gemm_ar whose tiles copy engines carry: peers' finished tiles go from the slot
// to the caller as they land.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/device/call_params.h"
#include "backend/cuda/device/shared_results.h"
#include "backend/cuda/device/trace.h"

namespace tilelace::cuda {

constexpr int kCollectCtas = 264;  ///< two a multiprocessor of an H200

struct CollectTiles {
  CallParams call;  ///< counted here; the product before it enters it
  schedule::ShareOrder order;
  SharedResults shared;
  int columns = 0;  ///< of the result
  TILELACE_TRACE_SINK
};

/// Behind the product, not under its end: until that has begun to multiply, the call before it may
/// not be counted, and this kernel asks for the call's number at once. A multiple of 16 bytes a
/// row.
[[nodiscard]] cudaError_t enqueue_collect(const CollectTiles&, int ctas, cudaStream_t);

/// Loads it, so that a later launch does not.
[[nodiscard]] cudaError_t load_collect_tiles();

}  // namespace tilelace::cuda
