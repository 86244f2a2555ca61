// SPDX-License-Identifier: Apache-2.0
// Two machine files side by side.
#pragma once
#include <string>

#include "simulate/machine_file.h"

namespace tilelace::cli {

/// A line for each number that `mine` measured (its source begins so): key, `mine`, `other`,
/// difference in percent; then the others that differ.
std::string differences_text(const sim::MachineModel& mine, const Sources& sources,
                             const sim::MachineModel& other);

}  // namespace tilelace::cli
