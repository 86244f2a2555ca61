// SPDX-License-Identifier: Apache-2.0
// Symmetric memory that torch's allocator hands out: reserved by all ranks together, given out in
// pieces by each rank alone. Torch knows no more of an allocator than two C functions, so each pool
// has a place, and each place functions of its own: tilelace_pool_<place>_allocate and
// tilelace_pool_free.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tilelace::torch_binding {

/// At a time: functions cannot be made while a program runs.
inline constexpr int kMostPools = 32;

/// Number of the pool, its place, and the device's index that its group joined with. Collective
/// over the group's ranks, with the same size. Errors: usage (a size below 1, no place left: on the
/// rank that finds it, which all do that made the same pools), else as SymmetricBuffer.
std::vector<int64_t> make_pool(std::string group, std::string device, int64_t bytes);

/// Lets go of its memory, and says true, where nothing of it is out; torch will not ask it for
/// more, and work on it must be done. True for a number that is not there. Local; nothing happens
/// in a process that was forked from its owner.
bool drop_pool(int64_t number);

}  // namespace tilelace::torch_binding
