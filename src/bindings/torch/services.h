// SPDX-License-Identifier: Apache-2.0
// Calls that the package makes besides the ops, as rows of torch's table of calls.
#pragma once
#include <vector>

#include "bindings/torch/collective_ops.h"

namespace tilelace::torch_binding {

/// All these calls: of this rank alone, and of the whole group.
const std::vector<OpEntry>& services();

}  // namespace tilelace::torch_binding
