// SPDX-License-Identifier: Apache-2.0
// How collectives reduce 16-byte units, in rank order. Floats are added in fp32 and rounded once.
#pragma once
#include <cstdint>

#include "backend/cuda/device/elements.h"

namespace tilelace::cuda {

namespace detail {

TILELACE_DEVICE void words_of(const uint4& v, std::uint32_t (&w)[4]) {
  w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
}

/// If an argument is NaN, the result is NaN, as in torch.
TILELACE_DEVICE float greater(float a, float b) { return a > b || a != a ? a : b; }

/// Converts a unit of kLanes floats of one type to fp32, and back with rounding.
template <class Element>
struct FloatLanes {
  static constexpr int kLanes = 8;
  TILELACE_DEVICE static void read(const uint4& v, float (&f)[kLanes]) {
    std::uint32_t w[4];
    words_of(v, w);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two = unpack(w[i], Element{});
      f[2 * i] = two.x, f[2 * i + 1] = two.y;
    }
  }
  TILELACE_DEVICE static uint4 rounded(const float (&f)[kLanes]) {
    return pack_elements<Element>(f);
  }
};
template <>
struct FloatLanes<float> {
  static constexpr int kLanes = 4;
  TILELACE_DEVICE static void read(const uint4& v, float (&f)[kLanes]) {
    std::uint32_t w[4];
    words_of(v, w);
#pragma unroll
    for (int i = 0; i < 4; ++i) f[i] = __uint_as_float(w[i]);
  }
  TILELACE_DEVICE static uint4 rounded(const float (&f)[kLanes]) {
    return {__float_as_uint(f[0]), __float_as_uint(f[1]), __float_as_uint(f[2]),
            __float_as_uint(f[3])};
  }
};

}  // namespace detail

/// Call add() for each rank's unit, in rank order, then done() with the divisor of the sum.
template <class Element, bool kMax>
class FloatReduction {
  using Lanes = detail::FloatLanes<Element>;

 public:
  TILELACE_DEVICE FloatReduction() {
    // Begins with the neutral element, which is minus zero for sums.
#pragma unroll
    for (float& v : of_) v = kMax ? -__uint_as_float(0x7f800000U) : -0.0F;
  }
  TILELACE_DEVICE void add(const uint4& v) {
    float f[Lanes::kLanes];
    Lanes::read(v, f);
#pragma unroll
    for (int i = 0; i < Lanes::kLanes; ++i)
      of_[i] = kMax ? detail::greater(of_[i], f[i]) : of_[i] + f[i];
  }
  [[nodiscard]] TILELACE_DEVICE auto& floats() { return of_; }
  TILELACE_DEVICE uint4 done(float divisor) {
    if (divisor != 1.0F) {
#pragma unroll
      for (float& v : of_) v = v / divisor;
    }
    return Lanes::rounded(of_);
  }

 private:
  float of_[Lanes::kLanes];
};

/// Like FloatReduction, for integers. Sums wrap around, and the divisor is ignored.
template <class Integer, bool kMax>
class IntegerReduction {
 public:
  TILELACE_DEVICE void add(const uint4& v) {
    std::uint32_t more[4];
    detail::words_of(v, more);
    if constexpr (sizeof(Integer) == 8) {
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const std::uint64_t now =
            both(static_cast<Integer>(pair(of_, i)), static_cast<Integer>(pair(more, i)));
        of_[i] = static_cast<std::uint32_t>(now),
        of_[i + 1] = static_cast<std::uint32_t>(now >> 32);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) of_[i] = added(of_[i], more[i]);
    }
    first_ = false;
  }
  TILELACE_DEVICE uint4 done(float /*divisor*/) const { return {of_[0], of_[1], of_[2], of_[3]}; }

 private:
  static constexpr int kBits = 8 * static_cast<int>(sizeof(Integer));

  TILELACE_DEVICE static std::uint64_t pair(const std::uint32_t (&w)[4], int i) {
    return static_cast<std::uint64_t>(w[i + 1]) << 32 | w[i];
  }
  TILELACE_DEVICE std::uint64_t both(Integer have, Integer more) const {
    if (first_) return static_cast<std::uint64_t>(more);
    if (kMax) return static_cast<std::uint64_t>(have > more ? have : more);
    return static_cast<std::uint64_t>(have) + static_cast<std::uint64_t>(more);
  }
  /// Returns for each element of two words the sum or, with kMax, the larger element.
  TILELACE_DEVICE std::uint32_t added(std::uint32_t have, std::uint32_t more) const {
    constexpr std::uint32_t kMask = ~0U >> (32 - (kBits < 32 ? kBits : 32));
    std::uint32_t word = 0;
#pragma unroll
    for (int at = 0; at < 32; at += kBits) {
      const std::uint64_t now =
          both(static_cast<Integer>(have >> at), static_cast<Integer>(more >> at));
      word |= (static_cast<std::uint32_t>(now) & kMask) << at;
    }
    return word;
  }

  std::uint32_t of_[4] = {};
  bool first_ = true;
};

/// Stands for the reduction in collectives that only move data.
struct NoReduction {
  TILELACE_DEVICE void add(const uint4& /*v*/) {}
  TILELACE_DEVICE uint4 done(float /*divisor*/) const { return {}; }
};

}  // namespace tilelace::cuda
