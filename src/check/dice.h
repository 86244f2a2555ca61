// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <random>

namespace tilelace::check {

/// Random numbers that depend only on a seed and the number i of a case.
class Dice {
 public:
  Dice(std::uint64_t seed, std::int64_t i)
      : random_(seed * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(i)) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  int between(int lo, int hi) { return lo + below(hi - lo + 1); }
  bool one_in(int n) { return below(n) == 0; }
  template <class T, std::size_t N>
  T any(const std::array<T, N>& of) {
    return of[static_cast<std::size_t>(below(static_cast<int>(N)))];
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace tilelace::check
