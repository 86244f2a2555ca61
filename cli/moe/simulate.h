// SPDX-License-Identifier: Apache-2.0
// `tilelace simulate` of mixtures of experts.
#pragma once
#include <string>

#include "moe/layer.h"

namespace tilelace::cli {

struct MoeSimulation {
  std::string machine, m, dtype, json;
  int ranks = 0;  ///< 0: all of the machine's
  bool quiet = false;
};

/// Simulates, prints and returns the exit code. Errors: usage (also for options of other ops).
int simulate_moe(const CLI::App& command, const MoeSizes&, const MoeRequest&, const MoeSimulation&);

}  // namespace tilelace::cli
