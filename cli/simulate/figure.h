// SPDX-License-Identifier: Apache-2.0
// The timeline of a fused call as a picture: bars of every method on one scale, the
// multiprocessors of one rank, the wires.
#pragma once
#include <string>

#include "simulate/report.h"

namespace tilelace::cli {

/// The row's prediction must hold spans.
std::string figure_svg(const sim::MachineModel& machine, const SimulatedRow& row, int rank);

/// Error: usage, when the file cannot be opened to write. What it holds stays.
void require_writable(const std::string& option, const std::string& path);
/// Errors: usage, when the file cannot be written whole.
void write_text(const std::string& option, const std::string& path, const std::string& text);

}  // namespace tilelace::cli
