// SPDX-License-Identifier: Apache-2.0
// Recordings of a row as text and as a file for Perfetto.
#pragma once
#include <string>
#include <vector>

#include "recorder.h"

namespace tilelace::gpu_test {

/// Where the time of the fused call goes, beside the products alone; `ranks` by rank.
std::string summary(const std::string& title, Op op, const std::vector<RankRow>& ranks);

/// The last `calls` calls: a process a rank, threads an SM, and one a flag that landed.
std::string perfetto_json(const std::vector<RankRow>& ranks, int calls);

}  // namespace tilelace::gpu_test
