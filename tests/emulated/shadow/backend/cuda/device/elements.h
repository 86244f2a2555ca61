// SPDX-License-Identifier: Apache-2.0
// src/backend/cuda/device/elements.h for emulated GPUs.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "backend/cuda/device/ptx.h"

namespace tilelace::cuda {

template <class Two>
std::uint32_t word_of(Two two) {
  std::uint32_t word = 0;
  std::memcpy(&word, &two, sizeof word);
  return word;
}
inline std::uint32_t pack(float low, float high, __nv_bfloat16 /*type*/) {
  return word_of(__floats2bfloat162_rn(low, high));
}
inline std::uint32_t pack(float low, float high, __half /*type*/) {
  return word_of(__floats2half2_rn(low, high));
}
inline float2 unpack(std::uint32_t v, __nv_bfloat16 /*type*/) {
  return {__uint_as_float(v << 16U), __uint_as_float(v & 0xFFFF0000U)};
}
inline float2 unpack(std::uint32_t v, __half /*type*/) {
  return __half22float2(emulated::value_of<__half2_raw>(v));
}

template <class Element>
TILELACE_DEVICE void add_elements(float (&sum)[8], const uint4& v) {
  const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
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
