// SPDX-License-Identifier: Apache-2.0
// Looks for other activity on a GPU.
#pragma once
#include <cstdint>

namespace tilelace {

/// What NVML, if it is available, reports about a GPU.
struct GpuSight {
  int processes = -1;           ///< processes with work on it; -1: unknown
  std::uint64_t slowdowns = 0;  ///< NVML's throttle reasons for heat and faults
  bool operator==(const GpuSight&) const = default;
};

/// Local; never throws. All values are unknown if NVML is missing.
GpuSight look_at_gpu(int device) noexcept;

}  // namespace tilelace
