// SPDX-License-Identifier: Apache-2.0
// Functions that the Python package calls besides the ops, to register with torch.
#pragma once
#include <vector>

#include "bindings/torch/collective_ops.h"

namespace tilelace::torch_binding {

/// All these functions, local and collective ones.
const std::vector<OpEntry>& services();

}  // namespace tilelace::torch_binding
