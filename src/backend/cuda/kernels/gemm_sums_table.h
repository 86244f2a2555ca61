// SPDX-License-Identifier: Apache-2.0
// The compiled kernels of a gemm_ar whose ranks keep their partials, as the host sees them.
#pragma once
#include <string_view>

#include "tilelace/dtype.h"

namespace tilelace::cuda {

/// All take GemmSumsParams; null: not made.
struct SumsKernels {
  const void* by_switch = nullptr;  ///< memory must be mapped for multicast
  const void* by_peers = nullptr;
};
SumsKernels gemm_sums(std::string_view tile, DType);

}  // namespace tilelace::cuda
