// SPDX-License-Identifier: Apache-2.0
// The kernel that follows the GEMMs of a gemm_rs whose partials are handed to their owners
// (schedule/hand_rows.h).
#pragma once
#include "backend/cuda/device/start.h"
#include "backend/cuda/reduce/reduce_rows.h"
#include "schedule/hand_rows.h"

namespace tilelace::cuda {

struct HandSum : SumRows {
  schedule::HandWay way = schedule::HandWay::copied;
  /// Offset of data that arrives. Way `ring`: partial sums, [m, n]. Way `copied`: this rank's rows
  /// of the partial of rank (rank + i) % ranks are at (i - 1) * pitch, for i = 1 .. ranks - 1.
  std::size_t incoming = 0;
  std::size_t pitch = 0;  ///< bytes from one partial to the next (way `copied`)
};

/// Enters the call, waits until all ranks have entered it, passes partials on, adds them and counts
/// the call. Start::early: may overlap the kernel that writes the partial. May be captured.
[[nodiscard]] cudaError_t enqueue_hand(const HandSum&, Start, cudaStream_t);

/// Loads the kernel now, so that launches need not load it.
[[nodiscard]] cudaError_t load_hand_rows();

}  // namespace tilelace::cuda
