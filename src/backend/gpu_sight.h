// SPDX-License-Identifier: Apache-2.0
// Other activity on a GPU.
#pragma once
#include <cstdint>

namespace tilelace {

/// Reported by NVML, where it is available.
struct GpuSight {
  int processes = -1;           ///< processes with work on it; -1: unknown
  std::uint64_t slowdowns = 0;  ///< NVML's throttle reasons for heat and faults
  bool operator==(const GpuSight&) const = default;
};

/// Local; never throws. All unknown if NVML is missing.
GpuSight look_at_gpu(int device) noexcept;

}  // namespace tilelace
