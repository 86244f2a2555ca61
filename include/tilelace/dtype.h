// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tilelace {

/// Element type of a tensor. Accumulation is always fp32.
enum class DType : std::uint8_t { bf16, fp16, fp32 };

constexpr std::size_t size_of(DType t) { return t == DType::fp32 ? 4 : 2; }

constexpr std::string_view name_of(DType t) {
  switch (t) {
    case DType::bf16: return "bf16";
    case DType::fp16: return "fp16";
    case DType::fp32: return "fp32";
  }
  return "?";
}

/// Unit roundoff u of the type: one rounding errs by at most u * |value|.
constexpr double unit_roundoff(DType t) {
  switch (t) {
    case DType::bf16: return 1.0 / 256;
    case DType::fp16: return 1.0 / 2048;
    case DType::fp32: return 1.0 / 16777216;
  }
  return 0;
}

}  // namespace tilelace
