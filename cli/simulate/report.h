// SPDX-License-Identifier: Apache-2.0
// What `tilelace simulate` prints and writes of a prediction.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/predict.h"
#include "table.h"

namespace tilelace::cli {

/// One product at one size on one machine.
struct SimulatedRow {
  std::string model, layer;  ///< empty without a model
  sim::Call call;
  std::int64_t n = 0, k = 0;  ///< of the unsharded product
  sim::Prediction prediction;
};

Table simulate_table(const std::vector<SimulatedRow>& rows, int characters);
std::vector<std::string> simulate_cells(const SimulatedRow& row);
/// How far off the model is known to be, and what of these rows is no mistake.
std::string simulate_notes(const sim::MachineModel& machine, const std::vector<SimulatedRow>& rows);

/// A line a plan tried, the fastest marked.
std::string tried_text(const SimulatedRow& row, int characters);

/// "tilelace.bench/1" with what only a simulation has beside it.
std::string simulate_record(const sim::MachineModel& machine, const SimulatedRow& row);

}  // namespace tilelace::cli
