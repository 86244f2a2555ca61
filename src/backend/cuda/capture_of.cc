// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/capture_of.h"

#include "backend/cuda/cuda_check.h"
#include "core/check.h"

namespace tilelace::cuda {

unsigned long long capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  check(cudaStreamGetCaptureInfo(stream, &status, &id), "whether the stream is being captured");
  if (status == cudaStreamCaptureStatusInvalidated)
    raise(ErrorKind::usage, "stream: got a capture that something else broke, expected a good one");
  return status == cudaStreamCaptureStatusActive ? id : 0;
}

}  // namespace tilelace::cuda
