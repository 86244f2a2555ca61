// SPDX-License-Identifier: Apache-2.0
// gemm_ar on GPUs, fused: gemm_rs whose owners store finished tiles with all ranks while others are
// multiplied. Results go straight into the peers' tensors where those are symmetric memory; else
// into their slots, from where the product's own end takes them to the caller.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/rank/reachable_out.h"
#include "backend/cuda/reduce/reduce_launch.h"
#include "plan/ways/gemm_ar_way.h"

namespace tilelace::cuda {

/// One rank's fused gemm_ar calls on one communicator: all ranks with the same plans. Makes nothing
/// in a call.
class GemmArCalls {
 public:
  /// `calls` must outlive it. Local.
  explicit GemmArCalls(RankCalls& calls) : calls_(calls) {}

  /// Enqueues a call; `out` is [m, n], of the residual the own rows are read. Of a direct call
  /// peers write into `out` while it is in the stream. May be captured. Errors: usage, system.
  void run(const OpCall&, const plan::GemmArWay&);

 private:
  RankCalls& calls_;
};

}  // namespace tilelace::cuda
