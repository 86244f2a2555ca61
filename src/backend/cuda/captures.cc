// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/captures.h"

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

void Captures::enter(cudaStream_t stream, std::string_view op) {
  const unsigned long long now = capture_of(stream);
  if (now == capture_) return;
  const bool odd = calls_ % 2 != 0;
  require(capture_ == 0 || !odd,
          "{}: graph, got one with an odd number of calls captured before this call, expected an "
          "even number: capture it again after all ranks have prepared again",
          op);
  require(now == 0 || !odd,
          "{}: graph, got a capture that begins after {} calls, expected an even number of calls "
          "before it: make one more first",
          op, calls_);
  capture_ = now;
  any_ = any_ || now != 0;
}

}  // namespace tilelace::cuda
