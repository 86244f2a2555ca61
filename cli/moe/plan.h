// SPDX-License-Identifier: Apache-2.0
// `tilelace plan` of mixtures of experts: how each half of a layer would run.
#pragma once
#include <string>

#include "moe/layer.h"

namespace tilelace::cli {

struct MoePlanning {
  std::string m, dtype, backend, architecture, tuning;
  int ranks = 1;
};

/// Prints the plans and returns the exit code. Errors: usage (also for options of other ops).
int plan_moe(const CLI::App& command, const MoeSizes&, const MoeRequest&, const MoePlanning&);

}  // namespace tilelace::cli
