// SPDX-License-Identifier: Apache-2.0
// A wait between copies of a stream: a copy engine cannot wait for a flag whose value is only known
// on the device.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/record.h"

namespace tilelace::cuda {

struct AwaitFlag {
  const comm::Flag* flag = nullptr;   ///< of the own rank
  const comm::Flag* epoch = nullptr;  ///< device memory: what the flag has to reach
  /// Device memory: the value that copies after this wait send as their flag. It gets the epoch or,
  /// if the wait failed, a value that nobody waits for: missing data is not passed on as if it had
  /// come.
  comm::Flag* granted = nullptr;
  WaitPlace place;
  WaitContext wait;
};

/// Later work in the stream comes after the flag, or after a failed wait, which the host was told
/// of. One warp: a kernel that fills a device while it waits for these copies must leave an SM free
/// (docs/decisions/0012). May be captured.
[[nodiscard]] cudaError_t enqueue_await_flag(const AwaitFlag&, cudaStream_t);

/// A flag of the own rank that is raised after a transfer in a stream; the transfer may have been
/// aborted.
struct RaiseFlag {
  comm::Flag* flag = nullptr;
  const comm::Flag* epoch = nullptr;  ///< device memory
  WaitContext wait;
};

/// Raises the flag, unless the rank's waits were stopped: an abort of the transfer stops them
/// first. A kernel of one warp; may be captured.
[[nodiscard]] cudaError_t enqueue_raise_flag(const RaiseFlag&, cudaStream_t);

/// Loads both, so that a later launch does not.
[[nodiscard]] cudaError_t load_await_flag();

}  // namespace tilelace::cuda
