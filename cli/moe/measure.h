// SPDX-License-Identifier: Apache-2.0
// A whole layer of experts: timed, and compared with fp64 on some tokens.
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
  std::vector<double> first_us, us;  ///< of the first half, of the layer: the slowest rank's
  std::string complaint;             ///< what was wrong, if anything
};

/// From rank 0 to whoever prints.
std::string to_text(const MoeTimes&);
MoeTimes moe_times_of(const std::string& text);

/// On each rank; rank 0 sends a row at a time.
void measure_moe(const MoeWork&, Communicator&, const Send&);

}  // namespace tilelace::cli
