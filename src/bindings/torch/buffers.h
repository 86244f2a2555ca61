// SPDX-License-Identifier: Apache-2.0
// Symmetric memory for tensors of the Python package. Each buffer has a number.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tilelace::torch_binding {

/// Allocates zeroed memory that peers can reach; returns its number and its address on this rank.
/// Collective over the group's ranks, with the same size. Errors: as SymmetricBuffer.
std::vector<int64_t> make_buffer(std::string group, std::string device, int64_t bytes);

/// Frees the buffer; work on it must have finished. Not collective. Does nothing for an unknown
/// number, or in a process that was forked from the owner.
void drop_buffer(int64_t number);

}  // namespace tilelace::torch_binding
