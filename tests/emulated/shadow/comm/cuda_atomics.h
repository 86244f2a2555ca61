// SPDX-License-Identifier: Apache-2.0
// src/comm/cuda_atomics.h for emulated GPUs. Other emulated threads may run between operations.
#pragma once
#include <time.h>

#include <cstdint>

#include "machine/atomics.h"

namespace tilelace::comm {

/// kWide: the operations are at system scope.
template <bool kWide>
struct EmulatedAtomics {
  template <class Word>
  static Word load_acquire(const Word* word) {
    return emulated::load_acquire(word, kWide);
  }
  template <class Word>
  static void store_release(Word* word, Word value) {
    emulated::store_release(word, value, kWide);
  }
  static void add_release(std::uint32_t* word, std::uint32_t value) {
    emulated::add_release(word, value, kWide);
  }
  static bool compare_exchange(std::uint64_t* word, std::uint64_t& expected,
                               std::uint64_t desired) {
    return emulated::compare_exchange(word, expected, desired, kWide);
  }
  static std::int64_t now_ns() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  }
  static void pause(std::uint32_t /*round*/) { emulated::Machine::get().yield(); }
};

using CudaAtomics = EmulatedAtomics<true>;

struct CudaDeviceAtomics : EmulatedAtomics<false> {
  static std::uint32_t next(std::uint32_t* word, std::uint32_t last) {
    return emulated::next(word, last);
  }
  static std::uint32_t add(std::uint32_t* word, std::uint32_t value) {
    return emulated::add(word, value);
  }
};

}  // namespace tilelace::comm
