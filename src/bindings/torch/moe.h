// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts on torch's tensors, as rows of torch's table of calls.
#pragma once
#include <vector>

#include "bindings/torch/collective_ops.h"

namespace tilelace::torch_binding {

/// The two halves of a layer; these calls need a group.
std::vector<OpEntry> moe_ops();
/// Calls that one rank makes alone, without a group.
std::vector<OpEntry> local_ops();

}  // namespace tilelace::torch_binding
