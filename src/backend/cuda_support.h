// SPDX-License-Identifier: Apache-2.0
// Whether this build can run CUDA ranks. Defined in cuda/ or, in builds without it, in stub/.
#pragma once
#include <string_view>

namespace tilelace {

/// Empty if CUDA ranks can run; else why they cannot.
std::string_view cuda_missing();

}  // namespace tilelace
