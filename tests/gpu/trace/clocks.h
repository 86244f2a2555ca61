// SPDX-License-Identifier: Apache-2.0
// Measures the differences between the GPUs' nanosecond clocks.
#pragma once
#include <cstddef>

#include "harness.h"

namespace tilelace::gpu_test {

struct ClockOffset {
  double ns = 0;         ///< this rank's clock minus rank 0's
  double within_ns = 0;  ///< uncertainty of `ns`, half of the shortest round trip
};

/// Collective. Measures round trips of a word between rank 0 and each other rank. Errors:
/// system.
ClockOffset clock_offset(const Rank& rank);

}  // namespace tilelace::gpu_test
