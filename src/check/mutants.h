// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "check/explore.h"

namespace tilelace::check {

/// Small runs that together use every guard of the protocol. Without a mutant no run has findings.
std::vector<CheckConfig> mutant_scenarios();

/// Like mutant_scenarios(), but for collectives, which have their own slots and epochs.
std::vector<CheckConfig> exchange_scenarios();

struct MutantResult {
  Mutant mutant = Mutant::none;
  int applied = 0;      ///< number of scenarios in which the mutant changed something
  int caught = 0;       ///< number of scenarios in which the checker found something
  std::string finding;  ///< the first finding
};

/// Tries each mutant on every scenario. A mutant is caught if there is at least one finding; a
/// mutant that changes nothing is not caught.
std::vector<MutantResult> run_mutants();

}  // namespace tilelace::check
