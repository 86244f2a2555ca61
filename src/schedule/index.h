// SPDX-License-Identifier: Apache-2.0
// Types of row, tile and flag numbers.
#pragma once
#include <cstdint>

#include "core/host_device.h"

namespace tilelace::schedule {

using Index = std::int64_t;
constexpr int kMaxGpuRanks = 8;  ///< the most ranks that kernels support

TILELACE_HD constexpr Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }
TILELACE_HD constexpr Index min_of(Index a, Index b) { return a < b ? a : b; }
TILELACE_HD constexpr Index max_of(Index a, Index b) { return a > b ? a : b; }

}  // namespace tilelace::schedule
