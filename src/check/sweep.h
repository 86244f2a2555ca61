// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "check/dice.h"
#include "check/explore.h"

namespace tilelace::check {

/// The i-th configuration of this seed: three calls of one or several ops and shapes. Half of the
/// row counts are edge cases (0, 1, ranks - 1, tile +- 1, primes, numbers not divisible by ranks).
/// Unfused sums with transport push are checked as collectives.
CheckConfig random_config(std::uint64_t seed, std::int64_t i);

/// A collective of at most `workers` workers.
CallSpec random_collective(Dice&, int ranks, int workers);

/// The i-th configuration with collectives: four calls of one or several kinds and sizes. Calls
/// send chunks or lines, may be in place or direct, and may have uneven or empty parcels.
CheckConfig random_exchange(std::uint64_t seed, std::int64_t i);

/// All ways to run a shape: every possible route, transport and straddling; all or the fewest
/// actors resident; rank 0 ahead or actors in random order. Each way has three equal calls.
std::vector<CheckConfig> variants(const CallSpec& shape, int ranks, int workers);

struct SweepFailure {
  CheckConfig config;
  std::vector<Finding> findings;
};

struct SweepSummary {
  std::int64_t configurations = 0;
  std::int64_t mixed = 0;  ///< number of configurations whose calls are not all equal
  std::int64_t failed = 0;
  std::int64_t steps = 0;
  std::int64_t tiles = 0;
  std::int64_t transfers = 0;
  std::int64_t flags = 0;
  std::vector<SweepFailure> failures;  ///< the first few failures
};

using SweepProgress = std::function<void(std::int64_t done)>;

/// Checks `count` random configurations of this seed. Calls `progress`, if any, from time to time.
SweepSummary sweep(std::int64_t count, std::uint64_t seed, const SweepProgress& progress = {});

/// Checks all configurations with several threads. Consecutive configurations with the same calls
/// share a Checker.
SweepSummary check_all(const std::vector<CheckConfig>& all, const SweepProgress& progress = {});

}  // namespace tilelace::check
