// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "check/explore.h"

namespace tilelace::check {

/// Small runs that together exercise every guard. Without a mutant none has a finding.
std::vector<CheckConfig> mutant_scenarios();

/// The same for collectives, which have their own slots and epochs.
std::vector<CheckConfig> exchange_scenarios();

struct MutantResult {
  Mutant mutant = Mutant::none;
  int applied = 0;      ///< scenarios in which it changed something
  int caught = 0;       ///< those of them with a finding
  std::string finding;  ///< the first one
};

/// Tries each mutant on every scenario. Caught: at least one finding. A mutant that changes nothing
/// is not caught.
std::vector<MutantResult> run_mutants();

}  // namespace tilelace::check
