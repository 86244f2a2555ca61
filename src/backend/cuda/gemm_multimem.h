// SPDX-License-Identifier: Apache-2.0
// gemm_ar on GPUs whose sums are made by the switch: one kernel, which stores results straight into
// the peers' tensors where those are symmetric memory, else into their slots and from there to the
// caller.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/reachable_out.h"
#include "backend/cuda/reduce_launch.h"
#include "plan/gemm_multimem.h"

namespace tilelace::cuda {

/// One rank's gemm_ar calls by multimem on one communicator: all ranks with the same plans. Makes
/// nothing in a call.
class GemmMultimem {
 public:
  /// Of calls up to the problem's m. Error: usage.
  static SlotNeeds needs(const Problem&);

  /// `calls` must outlive it. Local.
  explicit GemmMultimem(RankCalls& calls) : calls_(calls) {}

  /// Enqueues a call; `out` and residual are [m, n]. A direct plan takes `reachable`: peers write
  /// into `out` while the call is in the stream. May be captured. Errors: usage (also where memory
  /// is not mapped for multicast, unless the plan is emulated), system.
  void run(const Problem&, const plan::GemmMultimemPlan&, const ReduceOperands&, cudaStream_t,
           const ReachableOut& reachable = {});

 private:
  RankCalls& calls_;
};

}  // namespace tilelace::cuda
