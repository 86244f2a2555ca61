// SPDX-License-Identifier: Apache-2.0
// Compares two machine files.
#pragma once
#include <string>

#include "simulate/machine_file.h"

namespace tilelace::cli {

/// A line for each number that was measured in `mine` (its source begins with "measured"): key,
/// value in `mine`, value in `other`, difference in percent. Other numbers follow if they differ.
std::string differences_text(const sim::MachineModel& mine, const Sources& sources,
                             const sim::MachineModel& other);

}  // namespace tilelace::cli
