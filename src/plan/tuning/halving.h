// SPDX-License-Identifier: Apache-2.0
// Finds the fastest of several plans by successive halving: many short rounds, then fewer and
// longer ones. Pure: the caller takes the samples.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace tilelace::plan {

/// A sample: warm-up load of the same call, so that clocks settle, then the timed calls.
struct Look {
  double load_us = 0;
  double timed_us = 0;
  bool operator==(const Look&) const = default;
};

/// All calls take the first; the better half takes the second; the best of those take the last.
/// Only the last ranks large GEMMs, which run at the power limit, correctly.
inline constexpr Look kFirstLook{6e3, 3e3}, kSecondLook{12e3, 6e3}, kFullLook{40e3, 10e3};
inline constexpr std::size_t kFinalists = 4;
inline constexpr int kFullRounds = 4;
/// A call this many times slower than the best, predicted and in its first sample, gets no second.
inline constexpr double kHopeless = 1.5;

/// Result of a sample: the same on all ranks.
struct Sample {
  double us = 0;      ///< per call, on the slowest rank
  bool late = false;  ///< the time limit has passed
};
using Sampler = std::function<Sample(std::size_t call, const Look&)>;

/// The index of a call, and microseconds.
struct CallTime {
  std::size_t index = 0;
  double us = 0;
};

struct Halving {
  /// All sampled calls: those with the longest samples first, and of these the fastest first.
  std::vector<CallTime> times;
  /// Call 0 in full samples, before and after all others: how much the machine drifted.
  double first_us = 0, last_us = 0;
  bool late = false;  ///< ended early
};

/// `predicted_us`: per call, 0 where it has none. Tuned plans are compared with call 0. `sample` is
/// called in the same order on all ranks, if it returns the same
/// everywhere.
Halving fastest_of(std::span<const double> predicted_us, const Sampler& sample);

}  // namespace tilelace::plan
