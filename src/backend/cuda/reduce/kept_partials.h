// SPDX-License-Identifier: Apache-2.0
// gemm_ar on GPUs where each rank keeps its partial. One kernel multiplies tiles; the NVLink
// switch, or warps that pull, sum them. One-shot sums go to the caller. Two-shot sums go to peers'
// tensors if these are symmetric memory; otherwise they go to peers' slots, then to the caller.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/rank/reachable_tensor.h"
#include "backend/cuda/reduce/reduce_launch.h"
#include "plan/ways/kept_partials_way.h"

namespace tilelace::cuda {

/// One rank's gemm_ar calls with transport pull or multimem on one communicator; all ranks have the
/// same plans. Calls allocate nothing.
class KeptPartials {
 public:
  /// `calls` must outlive this object. Local.
  explicit KeptPartials(RankCalls& calls) : calls_(calls) {}

  /// Enqueues a call; `out` and residual are [m, n]. In a direct call peers write into `out` while
  /// the call runs. May be captured. Errors: usage (also for multimem on memory that is not mapped
  /// for multicast), system.
  void run(const OpCall&, const plan::KeptPartialsWay&);

 private:
  RankCalls& calls_;
};

}  // namespace tilelace::cuda
