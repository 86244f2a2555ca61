// SPDX-License-Identifier: Apache-2.0
// gemm_ar on GPUs, fused: gemm_rs whose owners store finished tiles at all ranks while others are
// multiplied. Results go directly into the peers' tensors if those are symmetric memory; if not,
// into their slots, from where the end of the GEMM kernel copies them to the caller.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/rank/reachable_out.h"
#include "backend/cuda/reduce/reduce_launch.h"
#include "plan/ways/gemm_ar_way.h"

namespace tilelace::cuda {

/// One rank's fused gemm_ar calls on one communicator; all ranks have the same plans. Calls
/// allocate nothing.
class GemmArCalls {
 public:
  /// `calls` must outlive it. Local.
  explicit GemmArCalls(RankCalls& calls) : calls_(calls) {}

  /// Enqueues a call; `out` is [m, n]; only own rows of the residual are read. In a direct call
  /// peers write into `out` while it is in the stream. May be captured. Errors: usage, system.
  void run(const OpCall&, const plan::GemmArWay&);

 private:
  RankCalls& calls_;
};

}  // namespace tilelace::cuda
