// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernels/gemm_instances.h"

namespace tilelace::cuda {
namespace {
TILELACE_GEMM_TALL(TILELACE_GEMM_TYPE)
TILELACE_GEMM_TALL_ALONE(TILELACE_GEMM_TYPE)
}  // namespace

std::span<const GemmKernel> gemm_tall() {
  static const GemmKernel kernels[] = {TILELACE_GEMM_TALL(TILELACE_GEMM_ENTRY)
                                           TILELACE_GEMM_TALL_ALONE(TILELACE_GEMM_ENTRY_ALONE)};
  return kernels;
}

}  // namespace tilelace::cuda
