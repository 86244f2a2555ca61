// SPDX-License-Identifier: Apache-2.0
// What every rank runs to measure collectives: for each op and size it checks the result, then
// times calls.
#pragma once
#include "collectives/figures.h"
#include "ranks.h"

namespace tilelace::cli {

/// GPU ranks: the number of calls in a graph, equal to the default number of calls in nccl-tests.
/// CPU ranks: the upper limit for the number of calls in one sample.
constexpr int kCallsOfGraph = 20;

/// Runs the work as this rank of its group; rank 0 sends CollectiveTimes (as text) for each row.
void measure_collectives(const CollectiveWork&, Communicator& member, const Send& send);

}  // namespace tilelace::cli
