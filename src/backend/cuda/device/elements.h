// SPDX-License-Identifier: Apache-2.0
// Arithmetic on two 16-bit elements in a 32-bit word.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "backend/cuda/device/ptx.h"

namespace tilelace::cuda {

/// Rounds two values to nearest even and packs them into a word, with `low` in the low half.
TILELACE_DEVICE std::uint32_t pack(float low, float high, __nv_bfloat16 /*type*/) {
  std::uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
TILELACE_DEVICE std::uint32_t pack(float low, float high, __half /*type*/) {
  std::uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

TILELACE_DEVICE float2 unpack(std::uint32_t v, __nv_bfloat16 /*type*/) {
  return {__uint_as_float(v << 16), __uint_as_float(v & 0xFFFF0000U)};
}
TILELACE_DEVICE float2 unpack(std::uint32_t v, __half /*type*/) {
  __half2 h;
  *reinterpret_cast<std::uint32_t*>(&h) = v;
  return __half22float2(h);
}

/// Adds the eight elements of `v` to `sum`.
template <class Element>
TILELACE_DEVICE void add_elements(float (&sum)[8], const uint4& v) {
  const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const float2 f = unpack(words[w], Element{});
    sum[2 * w] += f.x, sum[2 * w + 1] += f.y;
  }
}

template <class Element>
TILELACE_DEVICE uint4 pack_elements(const float (&v)[8]) {
  return {pack(v[0], v[1], Element{}), pack(v[2], v[3], Element{}), pack(v[4], v[5], Element{}),
          pack(v[6], v[7], Element{})};
}

}  // namespace tilelace::cuda
