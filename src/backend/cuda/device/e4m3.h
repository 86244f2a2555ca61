// SPDX-License-Identifier: Apache-2.0
// Converts fp32 to e4m3 as core/e4m3.h does, by one instruction.
#pragma once
#include <cstdint>

#include "backend/cuda/device/ptx.h"

namespace tilelace::cuda {

/// Returns two values as two bytes. The low byte is that of `low`.
TILELACE_DEVICE std::uint32_t e4m3_pair(float low, float high) {
  std::uint16_t r;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
  return r;
}

}  // namespace tilelace::cuda
