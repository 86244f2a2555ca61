// SPDX-License-Identifier: Apache-2.0
// The compiled kernels of gemm_ar by multimem, as the host sees them.
#pragma once
#include <string_view>

#include "tilelace/dtype.h"

namespace tilelace::cuda {

/// All take GemmMultimemParams; null: not made.
struct MultimemKernels {
  const void* function = nullptr;  ///< by the hardware: memory must be mapped for multicast
  const void* emulated = nullptr;  ///< by each rank itself, for checks
  int threads = 0;
};
MultimemKernels gemm_multimem(std::string_view tile, DType);

}  // namespace tilelace::cuda
