// SPDX-License-Identifier: Apache-2.0
// Symmetric memory for torch's allocator. All ranks reserve it together; then each rank hands out
// pieces alone. To torch, an allocator is two C functions without context. So a pool has one of
// kMostPools places. Each place has a tilelace_pool_<place>_allocate; all use tilelace_pool_free.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tilelace::torch_binding {

/// The most pools at a time, since so many allocate functions are compiled in.
inline constexpr int kMostPools = 32;

/// Makes a pool and returns its number, its place and the device index that its group joined with.
/// Collective over the group's ranks, with the same size. Errors: usage (a size outside 1..2^50; no
/// free place, which all ranks get if all made the same pools), else as SymmetricBuffer.
std::vector<int64_t> make_pool(std::string group, std::string device, int64_t bytes);

/// Frees the pool's memory and returns true; returns false if a piece is in use, and true for
/// an unknown number. torch must not allocate from the pool any more, and work on its memory must
/// have finished. Not collective; does nothing in a process that was forked from the owner.
bool drop_pool(int64_t number);

}  // namespace tilelace::torch_binding
