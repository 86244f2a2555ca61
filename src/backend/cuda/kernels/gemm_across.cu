// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernels/gemm_instances.h"

namespace tilelace::cuda {
namespace {
TILELACE_GEMM_ACROSS(TILELACE_GEMM_TYPE)
}  // namespace

std::span<const GemmKernel> gemm_across() {
  static const GemmKernel kernels[] = {TILELACE_GEMM_ACROSS(TILELACE_GEMM_ENTRY)};
  return kernels;
}

}  // namespace tilelace::cuda
