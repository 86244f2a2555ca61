// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/base/cuda_check.h"

#include "core/check.h"

namespace tilelace::cuda {

void throw_cuda(cudaError_t code, const char* what) {
  cudaGetLastError();  // a failed call shall not be the next one's error
  raise(ErrorKind::system, "cuda: {} failed: {}", what, cudaGetErrorString(code));
}

}  // namespace tilelace::cuda
