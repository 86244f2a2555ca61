// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "comm/deadline.h"
#include "comm/unique_fd.h"

namespace tilelace::comm {

/// Connects the ranks through a directory. Each rank binds `rank-<r>.sock` there and connects to
/// all lower ranks. Returns a socket to each rank (none for this rank). This rank's file is
/// removed, also after a failure. Errors: usage, system, Failure of kind peer or timeout.
std::vector<UniqueFd> meet_in_directory(int rank, int ranks, const std::string& directory,
                                        const Deadline& deadline);

}  // namespace tilelace::comm
