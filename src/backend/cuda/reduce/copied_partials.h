// SPDX-License-Identifier: Apache-2.0
// gemm_rs on GPUs by a GEMM per shard, whose partial a copy engine takes to its owner; then owners
// add. A rank's GEMMs write to its slot.
#pragma once
#include "backend/cuda/link/copy_engine.h"
#include "backend/cuda/rank/rank_calls.h"
#include "backend/cuda/reduce/reduce_launch.h"
#include "plan/ways/copied_partials_way.h"

namespace tilelace::cuda {

/// One rank's calls of this kind on one communicator. Calls allocate nothing.
class CopiedPartials {
 public:
  /// `calls` must outlive this object. Local. Error: system.
  explicit CopiedPartials(RankCalls& calls)
      : calls_(calls), engine_(calls.device(), calls.next(0)) {}

  /// Enqueues a call; `out` is [this rank's rows, n]. May be captured. Errors: usage, system.
  void run(const OpCall&, const plan::CopiedPartialsWay&);

 private:
  /// Runs one GEMM per shard, this rank's shard last. A result's copy overlaps the next GEMM.
  void multiply_by_shards(const OpCall&, const plan::CopiedPartialsWay&, unsigned slot);

  RankCalls& calls_;
  CopyEngine engine_;
};

}  // namespace tilelace::cuda
