// SPDX-License-Identifier: Apache-2.0
// What the package calls beside the ops, as rows of torch's table of calls.
#pragma once
#include <vector>

#include "bindings/torch/collective_ops.h"

namespace tilelace::torch_binding {

/// Local ones, and those of the group as a whole.
const std::vector<OpEntry>& services();

}  // namespace tilelace::torch_binding
