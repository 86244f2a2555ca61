// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/base/capture_of.h"

#include "backend/cuda/base/cuda_check.h"
#include "core/check.h"

namespace tilelace::cuda {

namespace {

struct Captured {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  bool kept = false;  ///< by the capture of another stream
};

Captured ask(cudaStream_t stream) {
  Captured c;
  const cudaError_t known = cudaStreamGetCaptureInfo(stream, &c.status, &c.id);
  c.kept = known == cudaErrorStreamCaptureImplicit;
  if (c.kept)
    cudaGetLastError();
  else
    check(known, "asking whether the stream is being captured");
  return c;
}

}  // namespace

unsigned long long capture_of(cudaStream_t stream) {
  const Captured c = ask(stream);
  require(
      !c.kept,
      "stream: the default stream cannot be used while another is captured: pass another stream");
  require(c.status != cudaStreamCaptureStatusInvalidated,
          "stream: an earlier error invalidated this capture: end the capture and capture again");
  return c.status == cudaStreamCaptureStatusActive ? c.id : 0;
}

bool is_kept_by_capture(cudaStream_t stream) { return ask(stream).kept; }

}  // namespace tilelace::cuda
