// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

namespace tilelace::cuda {

[[noreturn]] void throw_cuda(cudaError_t code, const char* what);

/// Throws a system error unless `code` is success; `what` says which call failed.
inline void check(cudaError_t code, const char* what) {
  if (code != cudaSuccess) throw_cuda(code, what);
}

}  // namespace tilelace::cuda
