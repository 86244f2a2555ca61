// SPDX-License-Identifier: Apache-2.0
// bf16 and fp16 on the host: conversions between their bits and float, and a type for each.
#pragma once
#include <bit>
#include <cstdint>

namespace tilelace {

/// The exact value of a bf16. Local. Errors: none.
constexpr float bf16_to_float(std::uint16_t h) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16);
}

/// The nearest bf16. If two values are equally near, it is the one whose last bit is 0. Values that
/// round beyond the largest bf16 become infinity; NaN stays NaN. Local.
/// Errors: none.
constexpr std::uint16_t float_to_bf16(float f) {
  const auto bits = std::bit_cast<std::uint32_t>(f);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// The exact value of an fp16. Local. Errors: none.
constexpr float fp16_to_float(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000U) << 16;
  const std::uint32_t magnitude = h & 0x7fffU;
  if (magnitude >= 0x7c00U)
    return std::bit_cast<float>(sign | 0x7f800000U | ((magnitude & 0x3ffU) << 13));
  // Multiplying by 2^112 corrects the exponent's bias and also normalises subnormals.
  const float scaled = std::bit_cast<float>(magnitude << 13) * std::bit_cast<float>(0x77800000U);
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

/// The nearest fp16, as in float_to_bf16. 65520 and above become infinity. Local. Errors: none.
constexpr std::uint16_t float_to_fp16(float f) {
  const auto bits = std::bit_cast<std::uint32_t>(f);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return sign | 0x7e00U;
  if (magnitude >= 0x477ff000U) return sign | 0x7c00U;  // 65520 and above round to infinity
  if (magnitude < 0x38800000U) {  // the result is subnormal; the addition rounds it
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

/// An element of a DType::bf16 tensor; std::vector<Bf16> can hold such a tensor. A Bf16 converts to
/// float implicitly. A float converts to Bf16 only explicitly, rounded by float_to_bf16.
struct Bf16 {
  std::uint16_t bits = 0;  ///< sign bit, 8 exponent bits, 7 mantissa bits

  /// Zero.
  constexpr Bf16() = default;
  /// The nearest bf16. Errors: none.
  constexpr explicit Bf16(float value) : bits(float_to_bf16(value)) {}
  /// The exact value. Errors: none.
  constexpr operator float() const { return bf16_to_float(bits); }
};

/// An element of a DType::fp16 tensor. It converts as Bf16 does, but by float_to_fp16.
struct Fp16 {
  std::uint16_t bits = 0;  ///< sign bit, 5 exponent bits, 10 mantissa bits

  /// Zero.
  constexpr Fp16() = default;
  /// The nearest fp16. Errors: none.
  constexpr explicit Fp16(float value) : bits(float_to_fp16(value)) {}
  /// The exact value. Errors: none.
  constexpr operator float() const { return fp16_to_float(bits); }
};

}  // namespace tilelace
