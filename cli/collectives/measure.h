// SPDX-License-Identifier: Apache-2.0
// What every rank runs to measure collectives: for each op and size it checks the result, then
// times calls.
#pragma once
#include "collectives/figures.h"
#include "ranks.h"

namespace tilelace::cli {

/// GPU ranks: how many calls a graph has, as many as nccl-tests times by default. CPU ranks: the
/// most calls that one sample times.
constexpr int kCallsOfGraph = 20;

/// Runs the work as this rank of its group; rank 0 sends CollectiveTimes (as text) for each row.
void measure_collectives(const CollectiveWork&, Communicator& member, const Send& send);

}  // namespace tilelace::cli
