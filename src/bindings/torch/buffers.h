// SPDX-License-Identifier: Apache-2.0
// Symmetric memory for tensors of the package; each buffer has a number.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tilelace::torch_binding {

/// Number and address of zeroed memory of this rank that peers reach. Collective over the group's
/// ranks, with the same size. Errors: as SymmetricBuffer.
std::vector<int64_t> make_buffer(std::string group, std::string device, int64_t bytes);

/// Frees the buffer; work on it must be done. Local. Does nothing for an unknown number, or in a
/// process that was forked from the owner.
void drop_buffer(int64_t number);

}  // namespace tilelace::torch_binding
