// SPDX-License-Identifier: Apache-2.0
// A kernel that waits for a flag, between two copies of a stream. Copy engines cannot wait for a
// flag whose expected value only the device knows.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/record.h"

namespace tilelace::cuda {

struct AwaitFlag {
  const comm::Flag* flag = nullptr;   ///< a flag of this rank
  const comm::Flag* epoch = nullptr;  ///< in device memory: the value that the flag must reach
  /// In device memory: the value that later copies of the stream send as a flag. The kernel sets it
  /// to the epoch or, if the wait failed, to the epoch minus 2. The latter raises no flag, so that
  /// missing data is not passed on.
  comm::Flag* granted = nullptr;
  WaitPlace place;
  WaitContext wait;
};

/// Enqueues a kernel of one warp, which makes later work in the stream wait for the flag. If the
/// wait fails, the host gets a record. Any kernel that waits for later copies of the stream must
/// leave an SM free for this kernel (docs/decisions/0012). May be captured.
[[nodiscard]] cudaError_t enqueue_await_flag(const AwaitFlag&, cudaStream_t);

/// A flag of this rank that is to be raised after a transfer in a stream, unless the transfer was
/// aborted.
struct RaiseFlag {
  comm::Flag* flag = nullptr;
  const comm::Flag* epoch = nullptr;  ///< in device memory: the value to raise the flag to
  WaitContext wait;
};

/// Enqueues a kernel of one warp that raises the flag unless this rank's waits were stopped. Waits
/// are always stopped before a transfer is aborted. May be captured.
[[nodiscard]] cudaError_t enqueue_raise_flag(const RaiseFlag&, cudaStream_t);

/// Loads both kernels now, so that launches need not load them.
[[nodiscard]] cudaError_t load_await_flag();

}  // namespace tilelace::cuda
