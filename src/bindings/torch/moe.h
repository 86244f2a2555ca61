// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts on torch's tensors, as ops to register with torch.
#pragma once
#include <vector>

#include "bindings/torch/collective_ops.h"

namespace tilelace::torch_binding {

/// The ops of a layer's two halves (ag_moe, then moe_rs or moe_ar), whose calls need a group.
std::vector<OpEntry> moe_ops();
/// Ops that one rank calls alone, without a group.
std::vector<OpEntry> local_ops();

}  // namespace tilelace::torch_binding
