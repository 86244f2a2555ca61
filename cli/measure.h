// SPDX-License-Identifier: Apache-2.0
// What every rank runs: for each job and size it checks the result, then times calls.
#pragma once
#include "ranks.h"
#include "row.h"

namespace tilelace::cli {

/// Runs the workload on this rank and sends a RankPart as text for each row (a job at one size). If
/// the checked mode has findings, rank 0 then sends kFindings followed by one line per finding.
void measure(const Workload& work, Communicator& member, const Send& send);

constexpr char kFindings = '!';

}  // namespace tilelace::cli
