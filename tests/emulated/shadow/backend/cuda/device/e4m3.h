// SPDX-License-Identifier: Apache-2.0
// src/backend/cuda/device/e4m3.h for emulated GPUs.
#pragma once
#include "core/e4m3.h"

namespace tilelace::cuda {

inline std::uint32_t e4m3_pair(float low, float high) {
  return static_cast<std::uint32_t>(float_to_e4m3(high)) << 8U | float_to_e4m3(low);
}

}  // namespace tilelace::cuda
