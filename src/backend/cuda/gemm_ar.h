// SPDX-License-Identifier: Apache-2.0
// gemm_ar on GPUs, fused: gemm_rs in row super-blocks, whose owners store finished tiles with all
// ranks while the next block is multiplied; then a kernel that takes peers' tiles to the caller.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/reduce_launch.h"
#include "plan/gemm_ar.h"

namespace tilelace::cuda {

/// One rank's fused gemm_ar calls on one communicator: all ranks with the same plans. Makes nothing
/// in a call.
class GemmAr {
 public:
  /// Of calls up to the problem's m. Error: usage.
  static SlotNeeds needs(const Problem&);

  /// `calls` must outlive it. Local.
  explicit GemmAr(RankCalls& calls) : calls_(calls) {}

  /// Enqueues a call; `out` is [m, n]. May be captured: an even number of calls a graph, the first
  /// of them where the number of calls before is even. Errors: usage, system.
  void run(const Problem&, const plan::GemmArPlan&, const ReduceOperands&, cudaStream_t);

 private:
  RankCalls& calls_;
};

}  // namespace tilelace::cuda
