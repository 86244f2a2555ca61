// SPDX-License-Identifier: Apache-2.0
// Symmetric memory for torch's allocator: reserved by all ranks together, handed out in pieces by
// each rank alone. torch knows an allocator only as two C functions without context, so each pool
// has a place, and each place its own functions: tilelace_pool_<place>_allocate and
// tilelace_pool_free.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tilelace::torch_binding {

/// Most pools at a time: functions cannot be made while a program runs.
inline constexpr int kMostPools = 32;

/// Number of the pool, its place, and the device index that its group joined with. Collective over
/// the group's ranks, with the same size. Errors: usage (a size below 1; no free place, which all
/// ranks see if they made the same pools), else as SymmetricBuffer.
std::vector<int64_t> make_pool(std::string group, std::string device, int64_t bytes);

/// Frees the pool's memory and returns true if no piece is in use. torch must not allocate from it
/// any more, and work on it must be done. True for an unknown number. Local; does nothing in a
/// process that was forked from the owner.
bool drop_pool(int64_t number);

}  // namespace tilelace::torch_binding
