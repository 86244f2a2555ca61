// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/gemm/convert.h"

#include <cstring>

#include "backend/cpu/gemm/simd.h"
#include "core/half.h"

#if TILELACE_X86_DISPATCH
#include <immintrin.h>
#endif

namespace tilelace::cpu {
namespace {

using Half = HostFp16::Word;

// Rows of any type, an element at a time; overloads are for those that have better.
template <class Element>
void row_to_float(Element, const typename Element::Word* __restrict src, std::int64_t n,
                  float* __restrict dst) {
  run_simd([=]() TILELACE_INLINE_BODY {
    for (std::int64_t i = 0; i < n; ++i) dst[i] = Element::to_float(src[i]);
  });
}

template <class Element>
void float_to_row(Element, const float* __restrict src, std::int64_t n,
                  typename Element::Word* __restrict dst) {
  run_simd([=]() TILELACE_INLINE_BODY {
    for (std::int64_t i = 0; i < n; ++i) dst[i] = Element::from_float(src[i]);
  });
}

// Each of these does whole vectors and says how many elements that were. (No 512-bit variant: GCC
// 12 warns about its own header there.)
#if TILELACE_X86_DISPATCH
TILELACE_AVX2 std::int64_t fp16_to_float_avx2(const Half* src, std::int64_t n, float* dst) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i));
    _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(bits));
  }
  return i;
}

TILELACE_AVX2 std::int64_t float_to_fp16_avx2(const float* src, std::int64_t n, Half* dst) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i), bits);
  }
  return i;
}
#endif

void row_to_float(HostFp16, const Half* src, std::int64_t n, float* dst) {
  std::int64_t i = 0;
#if TILELACE_X86_DISPATCH
  if (simd_level() != SimdLevel::generic) i = fp16_to_float_avx2(src, n, dst);
#endif
  for (; i < n; ++i) dst[i] = fp16_to_float(src[i]);
}

void float_to_row(HostFp16, const float* src, std::int64_t n, Half* dst) {
  std::int64_t i = 0;
#if TILELACE_X86_DISPATCH
  if (simd_level() != SimdLevel::generic) i = float_to_fp16_avx2(src, n, dst);
#endif
  for (; i < n; ++i) dst[i] = float_to_fp16(src[i]);
}

void row_to_float(HostFp32, const float* src, std::int64_t n, float* dst) {
  std::memcpy(dst, src, static_cast<std::size_t>(n) * sizeof(float));
}

void float_to_row(HostFp32, const float* src, std::int64_t n, float* dst) {
  std::memcpy(dst, src, static_cast<std::size_t>(n) * sizeof(float));
}

}  // namespace

void to_float(const void* src, DType dtype, std::int64_t n, float* dst) {
  if (n <= 0) return;
  with_host_element(dtype, [&](auto element) {
    row_to_float(element, static_cast<const typename decltype(element)::Word*>(src), n, dst);
  });
}

void from_float(const float* src, DType dtype, std::int64_t n, void* dst) {
  if (n <= 0) return;
  with_host_element(dtype, [&](auto element) {
    float_to_row(element, src, n, static_cast<typename decltype(element)::Word*>(dst));
  });
}

}  // namespace tilelace::cpu
