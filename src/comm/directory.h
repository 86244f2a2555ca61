// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "comm/deadline.h"
#include "comm/unique_fd.h"

namespace tilelace::comm {

/// Meets the other ranks in a directory: each binds `rank-<r>.sock` there, lower ranks listen,
/// higher ones connect. Returns a socket to each rank (none at the own place); the own file is gone
/// then, and also after a failure. Errors: usage, system, Failure of kind peer or timeout.
std::vector<UniqueFd> meet_in_directory(int rank, int ranks, const std::string& directory,
                                        const Deadline& deadline);

}  // namespace tilelace::comm
