// SPDX-License-Identifier: Apache-2.0
// Flag operations of fibers (emulated threads). `wide`: system scope, else device scope.
#pragma once
#include <cstdint>

#include "machine/machine.h"

namespace tilelace::emulated {

std::uint32_t load_acquire(const std::uint32_t* word, bool wide);
std::uint64_t load_acquire(const std::uint64_t* word, bool wide);
void store_release(std::uint32_t* word, std::uint32_t value, bool wide);
void store_release(std::uint64_t* word, std::uint64_t value, bool wide);
/// Relaxed accesses: they order no other memory.
std::uint64_t load_relaxed(const std::uint64_t* word);
void store_relaxed(std::uint64_t* word, std::uint64_t value);
void add_release(std::uint32_t* word, std::uint32_t value, bool wide);
bool compare_exchange(std::uint64_t* word, std::uint64_t& expected, std::uint64_t desired,
                      bool wide);
std::uint32_t next(std::uint32_t* word, std::uint32_t last);
/// Adds, with acquire and release at device scope, and returns the old value.
std::uint32_t add(std::uint32_t* word, std::uint32_t value);

}  // namespace tilelace::emulated
