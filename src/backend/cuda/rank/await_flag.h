// SPDX-License-Identifier: Apache-2.0
// A wait in the middle of a stream of copies: a copy engine itself cannot wait for a flag whose
// number is only known on the device.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/record.h"

namespace tilelace::cuda {

struct AwaitFlag {
  const comm::Flag* flag = nullptr;   ///< of the own rank
  const comm::Flag* epoch = nullptr;  ///< device memory: what the flag has to reach
  /// Device memory: what copies behind this wait send as their flag. It gets the epoch, or, if the
  /// wait failed, one that nobody waits for any more: what did not come is not passed on as if it
  /// had.
  comm::Flag* granted = nullptr;
  WaitPlace place;
  WaitContext wait;
};

/// What comes next in the stream comes after the flag, or after a wait that failed and told the
/// host. One warp: whoever fills a device while it waits for these copies leaves a multiprocessor
/// free (docs/decisions/0012). May be captured.
[[nodiscard]] cudaError_t enqueue_await_flag(const AwaitFlag&, cudaStream_t);

/// Flags of the own rank that are raised behind something in a stream that brought rows, and may
/// have been ended before it had.
struct RaiseFlag {
  comm::Flag* flag = nullptr;
  const comm::Flag* epoch = nullptr;  ///< device memory
  WaitContext wait;
};

/// Raises it, unless the rank's waits were stopped: whoever ends what brought the rows says so
/// first. One warp; may be captured.
[[nodiscard]] cudaError_t enqueue_raise_flag(const RaiseFlag&, cudaStream_t);

/// Loads both, so that a later launch does not.
[[nodiscard]] cudaError_t load_await_flag();

}  // namespace tilelace::cuda
