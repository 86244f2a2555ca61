// SPDX-License-Identifier: Apache-2.0
// gemm_rs on GPUs: one kernel multiplies, sends partial sums for the peers' rows into their slots
// while it goes on, and adds up what the peers sent for its own.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/reduce/reduce_launch.h"
#include "plan/ways/gemm_rs_way.h"

namespace tilelace::cuda {

/// One rank's gemm_rs calls on one communicator, fused: all ranks with the same plans. Makes
/// nothing in a call.
class GemmRsCalls {
 public:
  /// `calls` must outlive it. Local.
  explicit GemmRsCalls(RankCalls& calls) : calls_(calls) {}

  /// Enqueues a call; `out` is [m_r, n]. May be captured. Errors: usage, system.
  void run(const OpCall&, const plan::GemmRsWay&);

 private:
  template <class Params>
  void enqueue(const OpCall&, const plan::GemmRsWay&);

  RankCalls& calls_;
};

}  // namespace tilelace::cuda
