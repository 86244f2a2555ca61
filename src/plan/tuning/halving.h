// SPDX-License-Identifier: Apache-2.0
// Finds the fastest of several plans by successive halving: short samples of all plans, then longer
// samples of the best ones. The caller takes the samples.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace tilelace::plan {

/// The length of a sample: `load_us` of calls that only warm up, so that clocks settle, then
/// `timed_us` of timed calls.
struct Look {
  double load_us = 0;
  double timed_us = 0;
  bool operator==(const Look&) const = default;
};

/// Before all samples call 0 runs this long. Under load that begins anew GPUs keep their highest
/// clock for half a second, fall by a quarter for 40 ms and settle a few per cent lower.
inline constexpr Look kSettling{1e6, 3e3};
/// Samples have three lengths: kFirstLook, twice, for all calls, kSecondLook for the better half,
/// kFullLook for the best of that half. Only samples of kFullLook rank large GEMMs correctly, since
/// these run at the power limit. There clocks step up and down by 1 % from one 10 ms to the next,
/// so most of a full sample is timed.
inline constexpr Look kFirstLook{6e3, 3e3}, kSecondLook{12e3, 6e3}, kFullLook{20e3, 30e3};
inline constexpr std::size_t kFinalists = 4;  ///< and call 0
inline constexpr int kFullRounds = 6;
/// A second sample that is longer than the first ones by this many times what it is for other calls
/// fell into such a dip: it is taken again, up to twice.
inline constexpr double kDip = 1.04;
inline constexpr int kDipRounds = 2;
/// A call gets no second sample if its prediction is more than this many times the best prediction
/// and its first sample is more than this many times the best first sample.
inline constexpr double kHopeless = 1.5;

/// Result of a sample, which is equal on all ranks.
struct Sample {
  double us = 0;      ///< time of a call on the slowest rank
  bool late = false;  ///< whether the time limit has passed
};
using Sampler = std::function<Sample(std::size_t call, const Look&)>;

/// The index of a call, and its time in microseconds.
struct CallTime {
  std::size_t index = 0;
  double us = 0;
};

struct Halving {
  /// Sampled calls, by length of their samples (longest first), then by time; hopeless calls last.
  std::vector<CallTime> times;
  /// Times of call 0 in two full samples, before and after the rounds of full samples. The times
  /// differ if the machine drifted.
  double first_us = 0, last_us = 0;
  bool late = false;  ///< whether the time limit ended the search early
};

/// A call's time is the shorter of its two first samples, the shortest of its second samples, or
/// the mean of its full samples without the longest one: what disturbs a sample lengthens it.
/// `predicted_us`: one per call, 0 if unknown. Call 0 is the plan that others are compared with. If
/// `sample` returns the same on all ranks, all ranks sample the same calls in the same order.
Halving fastest_of(std::span<const double> predicted_us, const Sampler& sample);

}  // namespace tilelace::plan
