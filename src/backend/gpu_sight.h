// SPDX-License-Identifier: Apache-2.0
// What is to be seen of a GPU beside one's own work.
#pragma once
#include <cstdint>

namespace tilelace {

/// As the driver's management library says, where there is one.
struct GpuSight {
  int processes = -1;           ///< that have work on it, all together; -1: not known
  std::uint64_t slowdowns = 0;  ///< NVML's reasons for lower clocks, those of heat and faults
  bool operator==(const GpuSight&) const = default;
};

/// Local; never throws: nothing is known where there is no such library.
GpuSight look_at_gpu(int device) noexcept;

}  // namespace tilelace
