// SPDX-License-Identifier: Apache-2.0
// Looks for other activity on a GPU.
#pragma once
#include <cstdint>

namespace tilelace {

/// What NVML, if it is available, reports about a GPU.
struct GpuSight {
  int processes = -1;           ///< processes that use the GPU for computing; -1: unknown
  std::uint64_t slowdowns = 0;  ///< NVML's throttle reasons for heat and faults; 0: none or unknown
  bool operator==(const GpuSight&) const = default;
};

/// Not collective; never throws. Without NVML all values are the defaults above.
GpuSight look_at_gpu(int device) noexcept;

}  // namespace tilelace
