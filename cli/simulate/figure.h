// SPDX-License-Identifier: Apache-2.0
// A picture of a predicted call: one bar per method with its time, and a timeline of the fused call
// on one rank's multiprocessors and on the wires.
#pragma once
#include <string>

#include "simulate/report.h"

namespace tilelace::cli {

/// The SVG text. The row's prediction must have been made with spans (sim::predict).
std::string figure_svg(const sim::MachineModel& machine, const SimulatedRow& row, int rank);

}  // namespace tilelace::cli
