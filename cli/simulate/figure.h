// SPDX-License-Identifier: Apache-2.0
// The timeline of a fused call as a picture: bars of every method on one scale, the
// multiprocessors of one rank, the wires.
#pragma once
#include <string>

#include "simulate/report.h"

namespace tilelace::cli {

/// The row's prediction must hold spans.
std::string figure_svg(const sim::MachineModel& machine, const SimulatedRow& row, int rank);

}  // namespace tilelace::cli
