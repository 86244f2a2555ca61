// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/capture_of.h"

#include "backend/cuda/cuda_check.h"
#include "core/check.h"

namespace tilelace::cuda {

unsigned long long capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  const cudaError_t known = cudaStreamGetCaptureInfo(stream, &status, &id);
  if (known == cudaErrorStreamCaptureImplicit) {
    cudaGetLastError();
    raise(ErrorKind::usage,
          "stream: got the default one while another is being captured, expected one of its own");
  }
  check(known, "whether the stream is being captured");
  if (status == cudaStreamCaptureStatusInvalidated)
    raise(ErrorKind::usage, "stream: got a capture that something else broke, expected a good one");
  return status == cudaStreamCaptureStatusActive ? id : 0;
}

bool is_kept_by_capture(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) != cudaErrorStreamCaptureImplicit) return false;
  cudaGetLastError();
  return true;
}

}  // namespace tilelace::cuda
