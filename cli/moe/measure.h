// SPDX-License-Identifier: Apache-2.0
// Times whole layers of experts, and compares the results of some tokens with fp64.
#pragma once
#include <string>
#include <vector>

#include "moe/work.h"
#include "ranks.h"

namespace tilelace::cli {

struct MoeTimes {
  std::string op;
  RoutingKind routing{};
  std::int64_t m = 0;
  double imbalance = 1;
  std::vector<double> first_us, us;  ///< samples (first half, whole layer) of the slowest rank
  std::string complaint;             ///< what was wrong, if anything
};

/// To and from the text of the message that rank 0 sends to the process that prints.
std::string to_text(const MoeTimes&);
MoeTimes moe_times_of(const std::string& text);

/// Runs the work as this rank of its group; rank 0 sends MoeTimes (as text) for each row.
void measure_moe(const MoeWork&, Communicator&, const Send&);

}  // namespace tilelace::cli
