// SPDX-License-Identifier: Apache-2.0
// The sum over all ranks' partials in fp32, one kernel (schedule/reduce_rows.h).
#pragma once
#include "backend/cuda/reduce_rows.h"

namespace tilelace::cuda {

/// Partials, the own one too, are [m, n] in fp32; a unit is eight of them.
struct WideSum : SumRows {
  std::size_t results = 0;  ///< offset: where owners store sums that are shared, [m, n]
};

/// As enqueue_sum.
[[nodiscard]] cudaError_t enqueue_wide_sum(const WideSum&, Start, cudaStream_t);

/// Loads it, so that a later launch does not.
[[nodiscard]] cudaError_t load_wide_sum();

}  // namespace tilelace::cuda
