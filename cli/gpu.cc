// SPDX-License-Identifier: Apache-2.0
// A build without CUDA.
#include "gpu.h"

#include "backend/cuda_support.h"
#include "core/check.h"

namespace tilelace::cli {
namespace {

[[noreturn]] void no_cuda() {
  raise(ErrorKind::usage,
        "GPU ranks: {}; `tilelace plan --backend cuda` and `tilelace simulate` need no GPU",
        cuda_missing());
}

}  // namespace

GpuFacts gpu_facts() { no_cuda(); }

bool gpu_has_kernel(const Plan& /*plan*/, DType /*dtype*/) { no_cuda(); }

void take_gpu(int /*device*/) { no_cuda(); }
void copy_bytes(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) { no_cuda(); }

}  // namespace tilelace::cli
