// SPDX-License-Identifier: Apache-2.0
// Whether CUDA ranks can run here. Defined in cuda/ or, in builds without CUDA, in stub/.
#pragma once
#include <string>

namespace tilelace {

/// Empty if CUDA ranks can run here; else why they cannot. Never throws.
std::string cuda_missing();

}  // namespace tilelace
