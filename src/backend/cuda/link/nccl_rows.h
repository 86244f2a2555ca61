// SPDX-License-Identifier: Apache-2.0
// Transport `nccl` of ag_gemm: NCCL sends and receives rows, for devices without fast access to
// each other's memory. NCCL has no timeouts, so a thread aborts NCCL's kernels if our waits fail.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>

#include "backend/cuda/rank/wait_control.h"
#include "backend/cuda/vendor/nccl.h"

namespace tilelace::cuda {

/// One rank's part of the exchanges. Calls come from one thread.
class NcclRows {
 public:
  /// Makes a communicator of at most `most_ctas` CTAs and connects to every peer. Collective and
  /// bounded; `group` and `control` must outlive this object. Errors: system (no library, no NCCL
  /// in this build, multicast not turned off), peer, timeout.
  NcclRows(comm::Group& group, int device, WaitControl& control, int most_ctas, double timeout_s);
  NcclRows(const NcclRows&) = delete;
  NcclRows& operator=(const NcclRows&) = delete;
  /// Ends the communicator; bounded.
  ~NcclRows();

  /// Enqueues an exchange; may be captured. Errors: system, peer, timeout.
  void exchange(const NcclExchange&, cudaStream_t);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilelace::cuda
