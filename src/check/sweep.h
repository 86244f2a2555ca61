// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "check/dice.h"
#include "check/explore.h"

namespace tilelace::check {

/// The i-th configuration of this seed: three calls of one or of several ops and shapes, half of
/// the row counts from the edges (0, 1, P-1, tile +- 1, primes, no multiple of P); among them
/// collectives, which stand for sums that are pushed.
CheckConfig random_config(std::uint64_t seed, std::int64_t i);

/// A call of up to so many workers.
CallSpec random_collective(Dice&, int ranks, int workers);

/// The same of collectives: three calls of one or of several kinds and sizes, by chunks (up to
/// three times around the ring), lines, in place, directly; parcels uneven and empty.
CheckConfig random_exchange(std::uint64_t seed, std::int64_t i);

/// All that a shape can be run as: every legal route, transport and straddling, all or the fewest
/// actors resident, rank 0 ahead or a random order; three equal calls each.
std::vector<CheckConfig> variants(const CallSpec& shape, int ranks, int workers);

struct SweepFailure {
  CheckConfig config;
  std::vector<Finding> findings;
};

struct SweepSummary {
  std::int64_t configurations = 0;
  std::int64_t mixed = 0;  ///< of them, with calls that differ
  std::int64_t failed = 0;
  std::int64_t steps = 0;
  std::int64_t tiles = 0;
  std::int64_t transfers = 0;
  std::int64_t flags = 0;
  std::vector<SweepFailure> failures;  ///< the first few
};

using SweepProgress = std::function<void(std::int64_t done)>;

/// `progress` is called now and then; may be empty.
SweepSummary sweep(std::int64_t count, std::uint64_t seed, const SweepProgress& progress = {});

/// Tries these, by several threads; neighbours with the same calls by one Checker.
SweepSummary check_all(const std::vector<CheckConfig>& all, const SweepProgress& progress = {});

}  // namespace tilelace::check
