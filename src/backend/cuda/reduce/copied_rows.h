// SPDX-License-Identifier: Apache-2.0
// The kernel that follows the GEMMs and copies of a gemm_rs whose partials copy engines take to
// their owners (run_copied_rows in schedule/reduce_rows.h).
#pragma once
#include "backend/cuda/device/start.h"
#include "backend/cuda/reduce/reduce_rows.h"

namespace tilelace::cuda {

struct CopiedSum : SumRows {
  /// Offset of copied data. This rank's rows of the partial of rank (rank + i) % ranks are at
  /// (i - 1) * pitch, for i = 1 .. ranks - 1.
  std::size_t incoming = 0;
  std::size_t pitch = 0;  ///< bytes from one partial to the next
};

/// Enters the call, waits until all ranks have entered it, adds this rank's rows of all partials
/// and counts the call. May be captured.
[[nodiscard]] cudaError_t enqueue_copied_sum(const CopiedSum&, Start, cudaStream_t);

/// Loads the kernel now, so that launches need not load it.
[[nodiscard]] cudaError_t load_copied_rows();

}  // namespace tilelace::cuda
