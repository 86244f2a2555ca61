// SPDX-License-Identifier: Apache-2.0
#include "machine/atomics.h"

#include <atomic>

namespace tilelace::emulated {
namespace {

template <class Word>
Word load(const Word* word, bool wide) {
  // Others of the process, and other processes, may write it.
  const Word value =
      std::atomic_ref<Word>(*const_cast<Word*>(word)).load(std::memory_order_acquire);
  Machine& m = Machine::get();
  order::acquire(m.knower(), word, Machine::scope(wide));
  return value;
}

template <class Word>
void store(Word* word, Word value, bool wide) {
  Machine& m = Machine::get();
  m.yield();
  order::release(m.knower(), word, Machine::scope(wide), false);
  std::atomic_ref<Word>(*word).store(value, std::memory_order_release);
}

}  // namespace

std::uint32_t load_acquire(const std::uint32_t* word, bool wide) { return load(word, wide); }
std::uint64_t load_acquire(const std::uint64_t* word, bool wide) { return load(word, wide); }
void store_release(std::uint32_t* word, std::uint32_t value, bool wide) {
  store(word, value, wide);
}
void store_release(std::uint64_t* word, std::uint64_t value, bool wide) {
  store(word, value, wide);
}

std::uint64_t load_relaxed(const std::uint64_t* word) {
  return std::atomic_ref<std::uint64_t>(*const_cast<std::uint64_t*>(word)).load();
}
void store_relaxed(std::uint64_t* word, std::uint64_t value) {
  Machine::get().yield();
  std::atomic_ref<std::uint64_t>(*word).store(value);
}

void add_release(std::uint32_t* word, std::uint32_t value, bool wide) {
  Machine& m = Machine::get();
  m.yield();
  order::release(m.knower(), word, Machine::scope(wide), true);
  std::atomic_ref<std::uint32_t>(*word).fetch_add(value);
}

bool compare_exchange(std::uint64_t* word, std::uint64_t& expected, std::uint64_t desired,
                      bool wide) {
  Machine& m = Machine::get();
  m.yield();
  order::acquire(m.knower(), word, Machine::scope(wide));
  const bool done =
      std::atomic_ref<std::uint64_t>(*word).compare_exchange_strong(expected, desired);
  if (done) order::release(m.knower(), word, Machine::scope(wide), true);
  return done;
}

std::uint32_t next(std::uint32_t* word, std::uint32_t last) {
  Machine::get().yield();
  const std::atomic_ref<std::uint32_t> at(*word);
  std::uint32_t before = at.load();
  while (!at.compare_exchange_weak(before, before >= last ? 0 : before + 1)) {
  }
  return before;
}

std::uint32_t add(std::uint32_t* word, std::uint32_t value) {
  Machine& m = Machine::get();
  m.yield();
  order::acquire(m.knower(), word, Machine::scope(false));
  order::release(m.knower(), word, Machine::scope(false), true);
  return std::atomic_ref<std::uint32_t>(*word).fetch_add(value);
}

}  // namespace tilelace::emulated
