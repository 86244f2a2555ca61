// SPDX-License-Identifier: Apache-2.0
// Which of several plans is the fastest, by successive halving: many short looks, then fewer longer
// ones, in turns. Pure: who samples, and on what, is the caller's.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace tilelace::plan {

/// A sample: a load of the call's own kind, as clocks settle under it, and what is timed behind it.
struct Look {
  double load_us = 0;
  double timed_us = 0;
  bool operator==(const Look&) const = default;
};

/// All calls have the first, the better half the second, those after it the last, which alone ranks
/// large products, that run at the power limit, rightly.
inline constexpr Look kFirstLook{6e3, 3e3}, kSecondLook{12e3, 6e3}, kFullLook{40e3, 10e3};
inline constexpr std::size_t kFinalists = 4;
inline constexpr int kFullRounds = 4;
/// A call that its prediction and its first look both put this far behind has no second one.
inline constexpr double kHopeless = 1.5;

/// What a look says: the same on all ranks.
struct Sample {
  double us = 0;      ///< a call, the slowest rank's
  bool late = false;  ///< the time that there was is over
};
using Sampler = std::function<Sample(std::size_t call, const Look&)>;

/// One of several calls, and microseconds.
struct CallTime {
  std::size_t index = 0;
  double us = 0;
};

struct Halving {
  /// Of every call that was looked at: those of the longest looks first, of them the fastest.
  std::vector<CallTime> times;
  /// Call 0 in full looks, before and after all other full ones: how far the machine strayed.
  double first_us = 0, last_us = 0;
  bool late = false;  ///< ended before its time
};

/// `predicted_us`: of each call, 0 where it has none. Call 0 is the one that a tuned plan is
/// compared with. The same calls of `sample` in the same order on all ranks, where it tells all
/// the same.
Halving fastest_of(std::span<const double> predicted_us, const Sampler& sample);

}  // namespace tilelace::plan
