// SPDX-License-Identifier: Apache-2.0
// gemm_rs on GPUs: one kernel multiplies, sends partial sums for the peers' rows into their slots
// while it goes on, and adds up what the peers sent for its own.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "comm/group.h"
#include "plan/gemm_rs.h"

namespace tilelace::cuda {

/// Device pointers, 16-byte aligned, rows one after the other.
struct GemmRsTensors {
  const void* x = nullptr;       ///< [m, k]
  const void* weight = nullptr;  ///< [n, k]
  const void* bias = nullptr;    ///< [n] or null; added once, to the sum
  void* out = nullptr;           ///< [m_r, n]
};

/// One rank's gemm_rs calls on one communicator. All ranks make the same calls, with the same
/// plans, in the same order, from one thread each, on one stream each. Makes nothing in a call.
class GemmRs {
 public:
  /// Staging for every problem of the list, up to its m. Collective. `group` must outlive it.
  /// Errors: usage, system, peer, timeout.
  GemmRs(comm::Group& group, int device, const std::vector<Problem>& problems, double timeout_s);
  GemmRs(const GemmRs&) = delete;
  GemmRs& operator=(const GemmRs&) = delete;
  /// Ends this rank's waits first.
  ~GemmRs();

  /// Enqueues a call. May be captured: an even number of calls a graph, the first of them where the
  /// number of calls before is even. Errors: usage, system.
  void run(const Problem&, const plan::GemmRsPlan&, const GemmRsTensors&, cudaStream_t);

  /// Waits until the work in `stream` is done, at most `timeout_s`; throws what went wrong in
  /// kernels (timeout, peer, usage for ranks that disagree).
  void finish(cudaStream_t stream, double timeout_s);

  [[nodiscard]] std::size_t staging_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilelace::cuda
