// SPDX-License-Identifier: Apache-2.0
// Shows recordings of a row as text and as a file for Perfetto.
#pragma once
#include <string>
#include <vector>

#include "recorder.h"

namespace tilelace::gpu_test {

/// Where the time of the fused call goes, compared with GEMMs alone. `ranks`: a row per rank.
std::string summary(const std::string& title, Op op, const std::vector<RankRow>& ranks);

/// A trace of the last `calls` calls: a process per rank, with a thread per lane of each SM and a
/// thread per flag that arrived.
std::string perfetto_json(const std::vector<RankRow>& ranks, int calls);

}  // namespace tilelace::gpu_test
