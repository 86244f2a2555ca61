// SPDX-License-Identifier: Apache-2.0
// Converts fp32 to the bits of an e4m3: rounds to nearest even, clamps at 448, keeps NaN.
#pragma once
#include <bit>
#include <cstdint>

namespace tilelace {

constexpr float kLargestE4m3 = 448;
/// The smallest scale. Values are divided by their scale, which must not be subnormal.
constexpr float kLeastScale = 0x1p-126F;

inline std::uint8_t float_to_e4m3(float f) {
  const auto bits = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t sign = bits >> 24U & 0x80U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return 0x7f;
  if (magnitude >= 0x43e00000U) return static_cast<std::uint8_t>(sign | 0x7eU);
  if (magnitude < 0x3c800000U) {  // below 2^-6: e4m3 has steps of 2^-9; the addition rounds to them
    const float shifted = std::bit_cast<float>(magnitude) + 16384.0F;
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x46800000U));
  }
  const std::uint32_t rounded = magnitude + 0x7ffffU + (magnitude >> 20U & 1U);
  return static_cast<std::uint8_t>(sign | ((rounded >> 20U) - (120U << 3U)));
}

}  // namespace tilelace
