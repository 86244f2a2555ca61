// SPDX-License-Identifier: Apache-2.0
// Symmetric memory that tensors of the package lie in, by number.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tilelace::torch_binding {

/// Number and address of zeroed memory of this rank that peers reach. Collective over the group's
/// ranks, with the same size. Errors: as SymmetricBuffer.
std::vector<int64_t> make_buffer(std::string group, std::string device, int64_t bytes);

/// Work on it must be done. Local; nothing happens for a number that is not there, nor in a process
/// that was forked from its owner.
void drop_buffer(int64_t number);

}  // namespace tilelace::torch_binding
