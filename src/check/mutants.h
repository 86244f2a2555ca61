// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "check/explore.h"

namespace tilelace::check {

/// Small runs that together reach every guard. Without a mutant none has a finding.
std::vector<CheckConfig> mutant_scenarios();

/// The same of collectives, which have slots and epochs of their own.
std::vector<CheckConfig> exchange_scenarios();

struct MutantResult {
  Mutant mutant = Mutant::none;
  int applied = 0;      ///< scenarios in which it had something to bend
  int caught = 0;       ///< of them, with a finding
  std::string finding;  ///< the first
};

/// Tries each mutant on every scenario. Caught: at least one finding. A mutant that bends nothing
/// lives.
std::vector<MutantResult> run_mutants();

}  // namespace tilelace::check
