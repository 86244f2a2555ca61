// SPDX-License-Identifier: Apache-2.0
// The end of a fused gemm_ar: peers' finished tiles go from the slot to the caller as they land.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/device/call_params.h"
#include "backend/cuda/device/trace.h"
#include "schedule/share_order.h"

namespace tilelace::cuda {

constexpr int kCollectCtas = 264;  ///< two a multiprocessor of an H200

struct CollectTiles {
  CallParams call;  ///< counted here; the product before it enters it
  schedule::ShareOrder order;
  int cluster_rows = 1, cluster_cols = 1;
  int tile_rows = 0, tile_cols = 0;  ///< of one CTA of the product
  int first_shared = 0;              ///< flag of the first tile
  int first_chunk = 0;               ///< flag of the first chunk that copy engines bring
  int columns = 0;                   ///< of the result
  std::size_t results = 0;           ///< offset of the slot's results, [m, n]
  std::byte* out = nullptr;          ///< likewise
  TILELACE_TRACE_SINK
};

/// Behind the product, not under its end: until that has begun to multiply, the call before it may
/// not be counted, and this kernel asks for the call's number at once. A multiple of 16 bytes a
/// row.
[[nodiscard]] cudaError_t enqueue_collect(const CollectTiles&, int ctas, cudaStream_t);

/// Loads it, so that a later launch does not.
[[nodiscard]] cudaError_t load_collect_tiles();

}  // namespace tilelace::cuda
