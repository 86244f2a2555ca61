// SPDX-License-Identifier: Apache-2.0
// gemm_ar on GPUs whose ranks keep their partials: one kernel, in which the switch, or who pulls
// them, sums whole tiles. In one shot sums go to the caller; in two straight into the peers'
// tensors where those are symmetric memory, else into their slots and from there to the caller.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/rank/reachable_out.h"
#include "backend/cuda/reduce/reduce_launch.h"
#include "plan/ways/kept_partials_way.h"

namespace tilelace::cuda {

/// One rank's gemm_ar calls by pull or multimem on one communicator: all ranks with the same plans.
/// Makes nothing in a call.
class KeptPartials {
 public:
  /// `calls` must outlive it. Local.
  explicit KeptPartials(RankCalls& calls) : calls_(calls) {}

  /// Enqueues a call; `out` and residual are [m, n]. Of a direct call peers write into `out` while
  /// it is in the stream. May be captured. Errors: usage (also where the switch is to sum and
  /// memory is not mapped for multicast), system.
  void run(const OpCall&, const plan::KeptPartialsWay&);

 private:
  RankCalls& calls_;
};

}  // namespace tilelace::cuda
