// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "simulate/report.h"

namespace tilelace::cli {

/// The fused call's timeline as trace events (JSON) for Perfetto and chrome://tracing: a process
/// per rank with a thread per worker, and one process for the wires. The row's prediction must have
/// been made with spans (sim::predict).
std::string trace_json(const sim::MachineModel& machine, const SimulatedRow& row);

}  // namespace tilelace::cli
