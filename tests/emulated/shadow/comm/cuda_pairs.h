// SPDX-License-Identifier: Apache-2.0
// src/comm/cuda_pairs.h for emulated GPUs. Accesses to a pair order no other memory. Accesses to a
// single word (a header) release and acquire here, although they are relaxed on GPUs.
#pragma once
#include <cstdint>

#include "machine/atomics.h"

namespace tilelace::comm {

struct CudaPairs {
  static void store(std::uint64_t* pair, std::uint64_t first, std::uint64_t second) {
    emulated::store_relaxed(pair, first);
    emulated::store_relaxed(pair + 1, second);
  }
  static void store(std::uint64_t* word, std::uint64_t value) {
    emulated::store_release(word, value, true);
  }
  static void load(const std::uint64_t* pair, std::uint64_t& first, std::uint64_t& second) {
    first = emulated::load_relaxed(pair);
    second = emulated::load_relaxed(pair + 1);
  }
  static void load(const std::uint64_t* word, std::uint64_t& value) {
    value = emulated::load_acquire(word, true);
  }
};

}  // namespace tilelace::comm
