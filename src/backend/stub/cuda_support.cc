// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda_support.h"

namespace tilelace {

std::string cuda_missing() { return "built without CUDA (CMake preset cuda builds it)"; }

}  // namespace tilelace
