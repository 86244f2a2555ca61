// SPDX-License-Identifier: Apache-2.0
// Runs the checks in a process that torchrun or mpirun started.
#pragma once
#include <vector>

#include "ranks.h"

namespace tilelace::comm::test {

/// Makes the checks with `hidden` and without `spare_sockets`. Rank 0 prints. Returns an exit code.
/// Errors: usage (no launcher, invalid values), system, peer, timeout.
int run_launched(const std::vector<Check>& checks, const Options& options);

}  // namespace tilelace::comm::test
