// SPDX-License-Identifier: Apache-2.0
// A picture of a call: bars of every method on one scale, and the timeline of the fused call for
// the multiprocessors of one rank and the wires.
#pragma once
#include <string>

#include "simulate/report.h"

namespace tilelace::cli {

/// The row's prediction must hold spans.
std::string figure_svg(const sim::MachineModel& machine, const SimulatedRow& row, int rank);

}  // namespace tilelace::cli
