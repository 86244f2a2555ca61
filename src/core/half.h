// SPDX-License-Identifier: Apache-2.0
// bf16 and fp16 as bits: conversion to and from fp32, round to nearest even.
#pragma once
#include <bit>
#include <cstdint>

#include "tilelace/dtype.h"
#include "tilelace/error.h"

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

/// Conversions of one element on the host, by type.
struct HostBf16 {
  using Word = std::uint16_t;
  static float to_float(Word w) { return bf16_to_float(w); }
  static Word from_float(float f) { return float_to_bf16(f); }
};
struct HostFp16 {
  using Word = std::uint16_t;
  static float to_float(Word w) { return fp16_to_float(w); }
  static Word from_float(float f) { return float_to_fp16(f); }
};
struct HostFp32 {
  using Word = float;
  static float to_float(Word w) { return w; }
  static Word from_float(float f) { return f; }
};

/// f(HostBf16{}) and so on. Errors: usage (a value that names nothing).
template <class F>
decltype(auto) with_host_element(DType t, const F& f) {
  switch (t) {
    case DType::bf16: return f(HostBf16{});
    case DType::fp16: return f(HostFp16{});
    case DType::fp32: return f(HostFp32{});
  }
  throw Error(ErrorKind::usage, "dtype: got an unknown value, expected bf16, fp16 or fp32");
}

inline float load_element(const void* p, DType t, std::int64_t i) {
  return with_host_element(t, [&](auto element) {
    using Element = decltype(element);
    return Element::to_float(static_cast<const typename Element::Word*>(p)[i]);
  });
}

inline void store_element(void* p, DType t, std::int64_t i, float value) {
  with_host_element(t, [&](auto element) {
    using Element = decltype(element);
    static_cast<typename Element::Word*>(p)[i] = Element::from_float(value);
  });
}

}  // namespace tilelace
