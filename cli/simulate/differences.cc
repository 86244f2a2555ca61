// SPDX-License-Identifier: Apache-2.0
#include "simulate/differences.h"

#include <fmt/core.h>

#include <map>

#include "sim/machine_fields.h"

namespace tilelace::cli {
namespace {

std::map<std::string, double> numbers_of(const sim::MachineModel& m) {
  std::map<std::string, double> all;
  each_field(m, [&](const char* section, const char* key, double value, const sim::Bounds&) {
    all[sim::dotted(section, key)] = value;
  });
  return all;
}

bool is_measured(const Sources& sources, const std::string& key) {
  const auto at = sources.find(key);
  return at != sources.end() && at->second.rfind("measured", 0) == 0;
}

}  // namespace

std::string differences_text(const sim::MachineModel& mine, const Sources& sources,
                             const sim::MachineModel& other) {
  const auto theirs = numbers_of(other);
  std::string measured, assumed;
  for (const auto& [key, value] : numbers_of(mine)) {
    const auto at = theirs.find(key);
    const bool both = at != theirs.end();
    if (!is_measured(sources, key)) {
      if (both && at->second != value)
        assumed += fmt::format("  {:<36} {:>10.4g} {:>10.4g}\n", key, value, at->second);
      continue;
    }
    measured += fmt::format("  {:<36} {:>10.4g} {:>10}", key, value,
                            both ? fmt::format("{:.4g}", at->second) : "-");
    if (both && at->second != 0)
      measured += fmt::format(" {:>+8.1f} %", 100 * (value / at->second - 1));
    measured += "\n";
  }
  return fmt::format("  {:<36} {:>10} {:>10}\n{}{}{}", "measured", mine.name, other.name, measured,
                     assumed.empty() ? "" : "  not measured, and different:\n", assumed);
}

}  // namespace tilelace::cli
