// SPDX-License-Identifier: Apache-2.0
// As src/comm/cuda_atomics.h, for emulated GPUs. Others go on between two of these.
#pragma once
#include <time.h>

#include <atomic>
#include <cstdint>

#include "machine/machine.h"

namespace tilelace::comm {

struct CudaAtomics {
  template <class Word>
  static Word load_acquire(const Word* word) {
    return std::atomic_ref<Word>(*const_cast<Word*>(word)).load(std::memory_order_acquire);
  }
  template <class Word>
  static void store_release(Word* word, Word value) {
    emulated::Machine::get().yield();
    std::atomic_ref<Word>(*word).store(value, std::memory_order_release);
  }
  static void add_release(std::uint32_t* word, std::uint32_t value) {
    emulated::Machine::get().yield();
    std::atomic_ref<std::uint32_t>(*word).fetch_add(value);
  }
  static bool compare_exchange(std::uint64_t* word, std::uint64_t& expected,
                               std::uint64_t desired) {
    emulated::Machine::get().yield();
    return std::atomic_ref<std::uint64_t>(*word).compare_exchange_strong(expected, desired);
  }
  static std::int64_t now_ns() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  }
  static void pause(std::uint32_t /*round*/) { emulated::Machine::get().yield(); }
};

struct CudaDeviceAtomics : CudaAtomics {
  static std::uint32_t add(std::uint32_t* word, std::uint32_t value) {
    emulated::Machine::get().yield();
    return std::atomic_ref<std::uint32_t>(*word).fetch_add(value);
  }
};

}  // namespace tilelace::comm
