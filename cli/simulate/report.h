// SPDX-License-Identifier: Apache-2.0
// How `tilelace simulate` prints and records a prediction.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/predict.h"
#include "table.h"

namespace tilelace::cli {

/// The prediction of one product at one size on one machine.
struct SimulatedRow {
  std::string model, layer;  ///< empty without a model
  sim::Call call;
  std::int64_t n = 0, k = 0;  ///< extents of the unsharded product
  sim::Prediction prediction;
};

Table simulate_table(const std::vector<SimulatedRow>& rows, int characters);
std::vector<std::string> simulate_cells(const SimulatedRow& row);
/// Notes under the table: the known error of predictions and, if these rows have figures that look
/// wrong but are right, an explanation of them.
std::string simulate_notes(const sim::MachineModel& machine, const std::vector<SimulatedRow>& rows);

/// One line per plan that was tried; the fastest is marked.
std::string tried_text(const SimulatedRow& row, int characters);

/// A record of schema "tilelace.bench/1", plus fields that only simulations have.
std::string simulate_record(const sim::MachineModel& machine, const SimulatedRow& row);

}  // namespace tilelace::cli
