// SPDX-License-Identifier: Apache-2.0
// gemm_rs and gemm_ar on GPUs, one after the other: the plain product into this rank's slot, then a
// kernel that adds the ranks' partials up: it pulls them, or pushes this rank's to who adds.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/rank_calls.h"
#include "plan/gemm_reduce.h"

namespace tilelace::cuda {

/// Device pointers, 16-byte aligned, rows one after the other.
struct GemmReduceTensors {
  const void* x = nullptr;         ///< [m, k]; without a weight the partial itself, [m, n]
  const void* weight = nullptr;    ///< [n, k], or null: nothing is multiplied
  const void* bias = nullptr;      ///< [n] or null; added once, to the sum
  void* out = nullptr;             ///< gemm_rs [m_r, n]; gemm_ar [m, n]
  const void* residual = nullptr;  ///< like `out`, or null; added once, to the sum
};

/// One rank's unfused gemm_rs and gemm_ar calls on one communicator. Makes nothing in a call.
class GemmReduce {
 public:
  /// Of calls up to the problem's m. Error: usage.
  static SlotNeeds needs(const Problem&);

  /// `calls` must outlive it. Local.
  explicit GemmReduce(RankCalls& calls) : calls_(calls) {}

  /// Enqueues a call. May be captured. Errors: usage, system.
  void run(const Problem&, const plan::GemmReducePlan&, const GemmReduceTensors&, cudaStream_t);

 private:
  /// The product into the slot, or what was given; where the partial is.
  const std::byte* enqueue_partial(const Problem&, const plan::GemmReducePlan&,
                                   const GemmReduceTensors&, unsigned slot, cudaStream_t);
  void run_pushed(const Problem&, const plan::GemmReducePlan&, const GemmReduceTensors&,
                  cudaStream_t);

  RankCalls& calls_;
};

}  // namespace tilelace::cuda
