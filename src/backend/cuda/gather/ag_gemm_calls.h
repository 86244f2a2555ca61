// SPDX-License-Identifier: Apache-2.0
// ag_gemm on GPUs: rows travel, by copy engine or by a small kernel, while one kernel multiplies
// what is there and waits, tile by tile, for what is not.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>

#include "backend/cuda/rank/op_call.h"
#include "backend/cuda/rank/rank_calls.h"
#include "plan/ways/ag_gemm_way.h"

namespace tilelace::cuda {

/// One rank's ag_gemm calls on one communicator. Makes nothing in a call.
class AgGemmCalls {
 public:
  /// `calls` must outlive it. Local; with `nccl`, for plans of that transport, collective. Errors:
  /// system, of NcclRows.
  AgGemmCalls(RankCalls& calls, bool nccl);
  AgGemmCalls(const AgGemmCalls&) = delete;
  AgGemmCalls& operator=(const AgGemmCalls&) = delete;
  ~AgGemmCalls();

  /// Enqueues a call; without weights rows are gathered and nothing is multiplied. May be captured.
  /// Errors: usage (beyond what was prepared), system.
  void run(const OpCall&, const plan::AgGemmWay&);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilelace::cuda
