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
  std::vector<double> first_us, us;  ///< samples of the slowest rank; first_us: first half only
  std::string complaint;             ///< what was wrong, if anything
};

/// These convert times to and from the text that rank 0 sends to the process that prints.
std::string to_text(const MoeTimes&);
MoeTimes moe_times_of(const std::string& text);

/// Runs the work as this rank of its group; rank 0 sends MoeTimes (as text) for each row.
void measure_moe(const MoeWork&, Communicator&, const Send&);

}  // namespace tilelace::cli
