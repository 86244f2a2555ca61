// SPDX-License-Identifier: Apache-2.0
// bf16 and fp16 as bits: conversion to and from fp32, round to nearest even.
#pragma once
#include <bit>
#include <cstdint>
#include <limits>

#include "tilelace/dtype.h"

namespace tilelace {

inline float bf16_to_float(std::uint16_t h) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16);
}

inline std::uint16_t float_to_bf16(float f) {
  const auto bits = std::bit_cast<std::uint32_t>(f);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

inline float fp16_to_float(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000U) << 16;
  const std::uint32_t magnitude = h & 0x7fffU;
  if (magnitude >= 0x7c00U)
    return std::bit_cast<float>(sign | 0x7f800000U | ((magnitude & 0x3ffU) << 13));
  // Scaling by 2^112 moves the exponent and also normalises subnormals.
  const float scaled = std::bit_cast<float>(magnitude << 13) * std::bit_cast<float>(0x77800000U);
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

inline std::uint16_t float_to_fp16(float f) {
  const auto bits = std::bit_cast<std::uint32_t>(f);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return sign | 0x7e00U;
  if (magnitude >= 0x477ff000U) return sign | 0x7c00U;  // 65520 and above round to infinity
  if (magnitude < 0x38800000U) {  // below 2^-14: subnormal, let the adder round
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

inline float load_element(const void* p, DType t, std::int64_t i) {
  switch (t) {
    case DType::bf16: return bf16_to_float(static_cast<const std::uint16_t*>(p)[i]);
    case DType::fp16: return fp16_to_float(static_cast<const std::uint16_t*>(p)[i]);
    case DType::fp32: return static_cast<const float*>(p)[i];
  }
  return std::numeric_limits<float>::quiet_NaN();
}

inline void store_element(void* p, DType t, std::int64_t i, float value) {
  switch (t) {
    case DType::bf16: static_cast<std::uint16_t*>(p)[i] = float_to_bf16(value); break;
    case DType::fp16: static_cast<std::uint16_t*>(p)[i] = float_to_fp16(value); break;
    case DType::fp32: static_cast<float*>(p)[i] = value; break;
  }
}

}  // namespace tilelace
