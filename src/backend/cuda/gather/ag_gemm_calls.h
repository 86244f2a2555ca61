// SPDX-License-Identifier: Apache-2.0
// ag_gemm on GPUs. Rows are moved by copy engines, NCCL, a small kernel or the GEMM. In fused plans
// the GEMM meanwhile multiplies rows that have arrived and waits, tile by tile, for the other rows.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>

#include "backend/cuda/rank/op_call.h"
#include "backend/cuda/rank/rank_calls.h"
#include "plan/ways/ag_gemm_way.h"

namespace tilelace::cuda {

/// One rank's ag_gemm calls on one communicator. Calls allocate no memory.
class AgGemmCalls {
 public:
  /// `calls` must outlive this object. `nccl`: whether plans may use transport nccl. If so, the
  /// constructor is collective; otherwise it is local. Errors: system, those of NcclRows.
  AgGemmCalls(RankCalls& calls, bool nccl);
  AgGemmCalls(const AgGemmCalls&) = delete;
  AgGemmCalls& operator=(const AgGemmCalls&) = delete;
  ~AgGemmCalls();

  /// Enqueues a call. A call without weights only gathers rows. May be captured. Errors: usage (the
  /// call needs more than was prepared), system.
  void run(const OpCall&, const plan::AgGemmWay&);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilelace::cuda
