// SPDX-License-Identifier: Apache-2.0
// The atomics policy (comm/signal.h) of CPU ranks, whether ranks are threads or processes.
#pragma once
#include <sched.h>
#include <time.h>

#include <atomic>
#include <cstdint>

namespace tilelace::comm {

struct StdAtomics {
  template <class Word>
  static Word load_acquire(const Word* word) {
    static_assert(std::atomic_ref<Word>::is_always_lock_free);
    return std::atomic_ref<Word>(*const_cast<Word*>(word)).load(std::memory_order_acquire);
  }
  template <class Word>
  static void store_release(Word* word, Word value) {
    std::atomic_ref<Word>(*word).store(value, std::memory_order_release);
  }
  template <class Word>
  static bool compare_exchange(Word* word, Word& expected, Word desired) {
    return std::atomic_ref<Word>(*word).compare_exchange_strong(expected, desired,
                                                                std::memory_order_acq_rel);
  }
  static std::int64_t now_ns() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
  }
  /// A wait spins for 16 rounds, then yields, then sleeps for 20 us to 80 us, because there may be
  /// more ranks than cores, and the awaited thread may need this core.
  static void pause(std::uint32_t round) {
    if (round < 16) return;
    if (round < 48) {
      sched_yield();
      return;
    }
    const std::uint32_t doublings = (round - 48) / 4;
    const timespec nap{0, 20'000L << (doublings < 2 ? doublings : 2)};
    nanosleep(&nap, nullptr);
  }
};

}  // namespace tilelace::comm
