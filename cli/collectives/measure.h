// SPDX-License-Identifier: Apache-2.0
// What every rank does with collectives: all ops, all sizes; checked, then timed.
#pragma once
#include "collectives/figures.h"
#include "ranks.h"

namespace tilelace::cli {

/// As nccl-tests has iterations; of CPU ranks' samples at most.
constexpr int kCallsOfGraph = 20;

/// Runs the work as this rank of its group; rank 0 sends CollectiveTimes (as text) for each row.
void measure_collectives(const CollectiveWork&, Communicator& member, const Send& send);

}  // namespace tilelace::cli
