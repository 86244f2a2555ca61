// SPDX-License-Identifier: Apache-2.0
// Unfused gemm_rs and gemm_ar on GPUs: a plain GEMM, of this library or cuBLASLt's, writes a
// partial to this rank's slot; then a kernel adds the partials of all ranks. The kernel reads them
// from peers' slots (pull), or every rank first sends each part to the rank that adds that part.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/rank/op_call.h"
#include "backend/cuda/rank/rank_calls.h"
#include "backend/cuda/vendor/cublas_products.h"
#include "plan/ways/unfused_sum_way.h"

namespace tilelace::cuda {

/// One rank's unfused gemm_rs and gemm_ar calls on one communicator. Calls allocate nothing.
class UnfusedSums {
 public:
  /// `calls` must outlive this object. Not collective.
  explicit UnfusedSums(RankCalls& calls) : calls_(calls), cublas_(calls.room()) {}

  /// Enqueues a call. May be captured. Errors: usage, system.
  void run(const OpCall&, const plan::UnfusedSumWay&);

 private:
  // `gemm`: the plan's GEMM, fitted to this rank's share of the GPU. Shares may differ between
  // ranks, so what ranks must agree on is taken from the plan, not from `gemm`.
  /// Enqueues the GEMM, unless the call's input is the partial. Returns the partial's address.
  const std::byte* enqueue_partial(const OpCall&, const plan::UnfusedSumWay&,
                                   const plan::GemmPlan& gemm, unsigned slot);
  void run_pulled(const OpCall&, const plan::UnfusedSumWay&, const plan::GemmPlan& gemm);
  void run_pushed(const OpCall&, const plan::UnfusedSumWay&, const plan::GemmPlan& gemm);

  RankCalls& calls_;
  CublasProducts cublas_;
};

}  // namespace tilelace::cuda
