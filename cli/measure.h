// SPDX-License-Identifier: Apache-2.0
// What every rank does: all jobs, all sizes; checked, then timed.
#pragma once
#include "ranks.h"
#include "row.h"

namespace tilelace::cli {

/// Runs the workload as this rank of its group and sends a RankPart (as text) for each row, then
/// what the checked mode found, as kFindings and a line each.
void measure(const Workload& work, Communicator& member, const Send& send);

constexpr char kFindings = '!';

}  // namespace tilelace::cli
