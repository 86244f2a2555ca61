// SPDX-License-Identifier: Apache-2.0
// Environment variables that `./test --all` sets. They make tests of random cases try more
// cases, and other cases than in `./test`.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace tilelace {

inline std::uint64_t night_number(const char* name, std::uint64_t in_the_gate) {
  const char* const text = std::getenv(name);
  return text == nullptr ? in_the_gate : std::strtoull(text, nullptr, 10);
}

/// A number to add to a test's own seed.
inline std::uint64_t night_seed() { return night_number("TILELACE_TEST_SEED", 0); }
/// A factor on a test's own number of cases.
inline int night_times() {
  return static_cast<int>(
      std::clamp<std::uint64_t>(night_number("TILELACE_TEST_TIMES", 1), 1, 1000));
}

}  // namespace tilelace
