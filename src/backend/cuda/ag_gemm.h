// SPDX-License-Identifier: Apache-2.0
// ag_gemm on GPUs: rows travel, by copy engine or by a small kernel, while one kernel multiplies
// what is there and waits, tile by tile, for what is not.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "comm/group.h"
#include "plan/ag_gemm.h"

namespace tilelace::cuda {

/// Device pointers, 16-byte aligned, rows one after the other; one weight, bias and out for each
/// entry of Problem::n; none of them: the rows are gathered and nothing is multiplied.
struct AgGemmTensors {
  const void* a = nullptr;           ///< [m_r, k]
  std::vector<const void*> weights;  ///< [n_i, k]
  std::vector<const void*> biases;   ///< [n_i] each, or empty
  std::vector<void*> outs;           ///< [m, n_i]
  void* gathered = nullptr;          ///< [m, k] or null
};

/// One rank's ag_gemm calls on one communicator: staging, flags, streams. All ranks make the same
/// calls in the same order, from one thread each, on one stream each. Makes nothing in a call.
class AgGemm {
 public:
  /// Staging for every problem of the list, up to its m. Collective. `group` must outlive it.
  /// Errors: usage, system, peer, timeout.
  AgGemm(comm::Group& group, int device, const std::vector<Problem>& problems, double timeout_s);
  AgGemm(const AgGemm&) = delete;
  AgGemm& operator=(const AgGemm&) = delete;
  /// Ends this rank's waits first.
  ~AgGemm();

  /// Enqueues a call. May be captured: an even number of calls a graph, the first of them where the
  /// number of calls before is even; graphs and eager calls then come in any order.
  /// Errors: usage (misaligned pointer, problem beyond what was prepared), system.
  void run(const Problem&, const plan::AgGemmPlan&, const AgGemmTensors&, cudaStream_t);

  /// Waits until the work in `stream` is done, at most `timeout_s`; throws what went wrong in
  /// kernels (timeout, peer, usage for ranks that disagree).
  void finish(cudaStream_t stream, double timeout_s);

  /// Throws what went wrong in kernels so far; waits for nothing.
  void throw_if_failed();

  /// Bytes of staging on each rank, both slots, and how they come about.
  [[nodiscard]] std::size_t staging_bytes() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilelace::cuda
