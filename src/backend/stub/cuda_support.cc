// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda_support.h"

namespace tilelace {

std::string cuda_missing() { return "built without CUDA (" TILELACE_OTHER_BUILD ")"; }

}  // namespace tilelace
