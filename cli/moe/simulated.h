// SPDX-License-Identifier: Apache-2.0
// What `tilelace simulate` prints and records about layers of experts.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "moe/work.h"
#include "sim/expert_layer.h"
#include "table.h"

namespace tilelace::cli {

/// The predicted time of one layer at one size with one routing.
struct SimulatedLayer {
  std::string op;
  RoutingKind routing{};
  std::int64_t m = 0;
  double imbalance = 1;
  sim::LayerTime time;
};

/// Predicts the time of a layer with the random routing that `bench` uses. Errors: usage.
SimulatedLayer simulate_layer(const sim::MachineModel&, const MoeWork&, const std::string& op,
                              RoutingKind, std::int64_t m);

Table layer_table(int characters);
std::vector<std::string> layer_cells(const SimulatedLayer&);
/// A line that says how far simulated times of layers may be from measured ones.
std::string layer_notes(const sim::MachineModel&);
/// The record "tilelace.moe/1", with the fields that only a simulation adds.
std::string layer_record(const sim::MachineModel&, const MoeWork&, const SimulatedLayer&);

}  // namespace tilelace::cli
