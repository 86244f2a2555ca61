// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda_support.h"

namespace tilelace {

std::string_view cuda_missing() {
  return "built for sm_90a: the GEMM and the memory under it; its ops are not written yet";
}

}  // namespace tilelace
