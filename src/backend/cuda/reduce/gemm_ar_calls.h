// SPDX-License-Identifier: Apache-2.0
// Fused gemm_ar on GPUs: a gemm_rs whose owners store finished tiles at all ranks while other tiles
// are multiplied. Results go directly to the peers' tensors if these are symmetric memory; if not,
// to the peers' slots, from which each rank's GEMM kernel copies them to the caller at its end.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/rank/reachable_tensor.h"
#include "backend/cuda/reduce/reduce_launch.h"
#include "plan/ways/gemm_ar_way.h"

namespace tilelace::cuda {

/// One rank's fused gemm_ar calls on one communicator; all ranks have the same plans. Calls
/// allocate nothing.
class GemmArCalls {
 public:
  /// `calls` must outlive this object. Local.
  explicit GemmArCalls(RankCalls& calls) : calls_(calls) {}

  /// Enqueues a call; `out` is [m, n]; a rank reads only its own part of the residual. In a direct
  /// call peers write into `out` while the call runs. May be captured. Errors: usage, system.
  void run(const OpCall&, const plan::GemmArWay&);

 private:
  RankCalls& calls_;
};

}  // namespace tilelace::cuda
