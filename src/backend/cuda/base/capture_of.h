// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

namespace tilelace::cuda {

/// The id of the capture that the stream belongs to; 0: none. Errors: usage (an invalidated
/// capture; the default stream during a capture of another stream), system.
unsigned long long capture_of(cudaStream_t stream);

/// Whether a capture of another stream forbids enqueueing on this stream. Error: system.
bool is_kept_by_capture(cudaStream_t stream);

/// While such an object lives, this thread may query streams during captures of other streams.
class BesideCaptures {
 public:
  BesideCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;
  ~BesideCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace tilelace::cuda
