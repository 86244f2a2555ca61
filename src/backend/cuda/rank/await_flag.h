// SPDX-License-Identifier: Apache-2.0
// A wait for a flag between copies of a stream, by a kernel: a copy engine cannot wait for a flag
// whose value only the device knows.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/record.h"

namespace tilelace::cuda {

struct AwaitFlag {
  const comm::Flag* flag = nullptr;   ///< a flag of this rank
  const comm::Flag* epoch = nullptr;  ///< device memory: the value that the flag must reach
  /// Device memory: the value that copies after this wait send as their flag. It is set to the
  /// epoch or, if the wait failed, to the epoch minus 2, which raises no flag, so that missing data
  /// is not passed on.
  comm::Flag* granted = nullptr;
  WaitPlace place;
  WaitContext wait;
};

/// Makes later work in the stream wait for the flag. If the wait fails, the host gets a record. The
/// wait is a kernel of one warp, and a kernel that waits for later copies of the stream must leave
/// an SM free for it (docs/decisions/0012). May be captured.
[[nodiscard]] cudaError_t enqueue_await_flag(const AwaitFlag&, cudaStream_t);

/// A flag of this rank that is to be raised after a transfer in a stream, unless the transfer was
/// aborted.
struct RaiseFlag {
  comm::Flag* flag = nullptr;
  const comm::Flag* epoch = nullptr;  ///< device memory: the value to raise it to
  WaitContext wait;
};

/// Raises the flag unless this rank's waits were stopped, which comes before any abort of a
/// transfer. A kernel of one warp; may be captured.
[[nodiscard]] cudaError_t enqueue_raise_flag(const RaiseFlag&, cudaStream_t);

/// Loads both kernels now, so that launches need not load them.
[[nodiscard]] cudaError_t load_await_flag();

}  // namespace tilelace::cuda
