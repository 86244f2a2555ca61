// SPDX-License-Identifier: Apache-2.0
// Runs the checks in a process that torchrun or mpirun started.
#pragma once
#include <vector>

#include "ranks.h"

namespace tilelace::comm::test {

/// Makes the `hidden` checks that need no spare sockets; rank 0 prints. Returns the exit code.
/// Errors: usage (no launcher, invalid values), system, peer, timeout.
int run_launched(const std::vector<Check>& checks, const Options& options);

}  // namespace tilelace::comm::test
