// SPDX-License-Identifier: Apache-2.0
// A wait between copies of a stream, by a kernel: a copy engine cannot wait for a flag whose value
// only the device knows.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/record.h"

namespace tilelace::cuda {

struct AwaitFlag {
  const comm::Flag* flag = nullptr;   ///< a flag of this rank
  const comm::Flag* epoch = nullptr;  ///< device memory: the value that the flag must reach
  /// Device memory: the value that copies after this wait send as their flag. It is set to the
  /// epoch or, if the wait failed, to a value that no rank waits for, so that missing data is not
  /// passed on.
  comm::Flag* granted = nullptr;
  WaitPlace place;
  WaitContext wait;
};

/// Makes later work in the stream wait for the flag. If the wait fails, the host is told. The wait
/// is a kernel of one warp, so a kernel that waits for the copies after it must leave an SM free
/// (docs/decisions/0012). May be captured.
[[nodiscard]] cudaError_t enqueue_await_flag(const AwaitFlag&, cudaStream_t);

/// A flag of this rank that is raised after a transfer in a stream. The transfer may have been
/// aborted.
struct RaiseFlag {
  comm::Flag* flag = nullptr;
  const comm::Flag* epoch = nullptr;  ///< device memory
  WaitContext wait;
};

/// Raises the flag unless the rank's waits were stopped, as they are before a transfer is aborted.
/// A kernel of one warp; may be captured.
[[nodiscard]] cudaError_t enqueue_raise_flag(const RaiseFlag&, cudaStream_t);

/// Loads both kernels now, so that launches need not load them.
[[nodiscard]] cudaError_t load_await_flag();

}  // namespace tilelace::cuda
