// SPDX-License-Identifier: Apache-2.0
// Fused gemm_rs on GPUs: one kernel multiplies, meanwhile sends partials of peers' rows to the
// peers' slots, and adds the partials that peers sent for this rank's rows.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/reduce/reduce_launch.h"
#include "plan/ways/gemm_rs_way.h"

namespace tilelace::cuda {

/// One rank's fused gemm_rs calls on one communicator; all ranks have the same plans. Calls
/// allocate nothing.
class GemmRsCalls {
 public:
  /// `calls` must outlive this object. Local.
  explicit GemmRsCalls(RankCalls& calls) : calls_(calls) {}

  /// Enqueues a call; `out` is [this rank's rows, n]. May be captured. Errors: usage, system.
  void run(const OpCall&, const plan::GemmRsWay&);

 private:
  template <class Params>
  void enqueue(const OpCall&, const plan::GemmRsWay&);

  RankCalls& calls_;
};

}  // namespace tilelace::cuda
