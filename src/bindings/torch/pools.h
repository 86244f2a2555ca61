// SPDX-License-Identifier: Apache-2.0
// Symmetric memory for torch's allocator. All ranks reserve it together; then each rank hands out
// pieces alone. For torch an allocator is two C functions without context, so each pool has a
// numbered place with functions of its own: tilelace_pool_<place>_allocate and tilelace_pool_free.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tilelace::torch_binding {

/// The most pools at a time. It is fixed, since functions cannot be made while a program runs.
inline constexpr int kMostPools = 32;

/// Makes a pool and returns its number, its place and the device index that its group joined with.
/// Collective over the group's ranks, with the same size. Errors: usage (a size outside 1..2^50; no
/// free place: on every rank if all made the same pools), else as SymmetricBuffer.
std::vector<int64_t> make_pool(std::string group, std::string device, int64_t bytes);

/// Frees the pool's memory and returns true; returns false if a piece is in use, and true for
/// an unknown number. torch must not allocate from the pool any more, and work on its memory must
/// have finished. Local; does nothing in a process that was forked from the owner.
bool drop_pool(int64_t number);

}  // namespace tilelace::torch_binding
