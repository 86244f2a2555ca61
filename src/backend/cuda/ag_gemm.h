// SPDX-License-Identifier: Apache-2.0
// ag_gemm on GPUs: rows travel, by copy engine or by a small kernel, while one kernel multiplies
// what is there and waits, tile by tile, for what is not.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "backend/cuda/rank_calls.h"
#include "plan/ag_gemm.h"

namespace tilelace::cuda {

/// Device pointers, 16-byte aligned, rows one after the other; one weight and bias for each entry
/// of Problem::n, one out for each of its outputs (swiglu: one for both); none of them: the rows
/// are gathered and nothing is multiplied.
struct AgGemmTensors {
  const void* a = nullptr;           ///< [m_r, k]
  std::vector<const void*> weights;  ///< [n_i, k]
  std::vector<const void*> biases;   ///< [n_i] each, or empty
  std::vector<void*> outs;           ///< [m, n_i] each
  void* gathered = nullptr;          ///< [m, k] or null
};

/// One rank's ag_gemm calls on one communicator. Makes nothing in a call.
class AgGemm {
 public:
  /// Of calls up to the problem's m. Error: usage.
  static SlotNeeds needs(const Problem&);

  /// `calls` must outlive it. Local; with `nccl`, for plans of that transport, collective. Errors:
  /// system, of NcclRows.
  AgGemm(RankCalls& calls, bool nccl);
  AgGemm(const AgGemm&) = delete;
  AgGemm& operator=(const AgGemm&) = delete;
  ~AgGemm();

  /// Enqueues a call. May be captured; graphs and eager calls come in any order.
  /// Errors: usage (misaligned pointer, problem beyond what was prepared), system.
  void run(const Problem&, const plan::AgGemmPlan&, const AgGemmTensors&, cudaStream_t);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilelace::cuda
