// SPDX-License-Identifier: Apache-2.0
#include "plan/tuning/disturbance.h"

#include <fmt/format.h>

#include <algorithm>

namespace tilelace::plan {

std::string disturbance_of(int processes, int own, std::uint64_t slowdowns) {
  if (slowdowns != 0)
    return fmt::format("heat or a fault slows the clocks (NVML's reasons 0x{:x})", slowdowns);
  if (processes > own)
    return fmt::format("{} other process{} on its GPU", processes - own,
                       processes - own == 1 ? "" : "es");
  return "";
}

std::string stray_of(double first_us, double last_us) {
  if (first_us <= 0 || last_us <= 0) return "";
  const double stray = std::max(first_us, last_us) / std::min(first_us, last_us);
  if (stray <= kMostStray) return "";
  return fmt::format("the same call took {:.1f} us and then {:.1f} us, more than {:.0f} % apart",
                     first_us, last_us, 100 * (kMostStray - 1));
}

}  // namespace tilelace::plan
