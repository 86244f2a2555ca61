// SPDX-License-Identifier: Apache-2.0
// ag_gemm on GPUs: copy engines or a small kernel move rows. Meanwhile one GEMM kernel multiplies
// rows that have arrived and waits, tile by tile, for the others.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>

#include "backend/cuda/rank/op_call.h"
#include "backend/cuda/rank/rank_calls.h"
#include "plan/ways/ag_gemm_way.h"

namespace tilelace::cuda {

/// One rank's ag_gemm calls on one communicator. Calls allocate nothing.
class AgGemmCalls {
 public:
  /// `calls` must outlive this object. `nccl`: plans may use that transport; the constructor is
  /// then collective, else local. Errors: system, those of NcclRows.
  AgGemmCalls(RankCalls& calls, bool nccl);
  AgGemmCalls(const AgGemmCalls&) = delete;
  AgGemmCalls& operator=(const AgGemmCalls&) = delete;
  ~AgGemmCalls();

  /// Enqueues a call; without weights it only gathers rows. May be captured. Errors: usage (more
  /// than was prepared), system.
  void run(const OpCall&, const plan::AgGemmWay&);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilelace::cuda
