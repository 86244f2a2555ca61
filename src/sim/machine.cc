// SPDX-License-Identifier: Apache-2.0
#include "sim/machine.h"

#include <cmath>

#include "core/check.h"
#include "sim/machine_fields.h"

namespace tilelace::sim {
namespace {

void check(const std::string& what, double value, const Bounds& bounds) {
  require(std::isfinite(value) && value >= bounds.least && value <= bounds.most,
          "machine: {}: got {}, expected {} to {}", what, value, bounds.least, bounds.most);
  require(!bounds.whole || value == std::floor(value),
          "machine: {}: got {}, expected a whole number", what, value);
}

}  // namespace

void check_machine(const MachineModel& m) {
  require(!m.name.empty(), "machine: name is missing");
  each_field(m, [](const char* section, const char* key, double value, const Bounds& bounds) {
    check(dotted(section, key), value, bounds);
  });
  require(m.max_nodes == 1 || m.network.nics > 0,
          "machine: network.nics: got 0, expected at least 1 if max_nodes is {}", m.max_nodes);
}

}  // namespace tilelace::sim
