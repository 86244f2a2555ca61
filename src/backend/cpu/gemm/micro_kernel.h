// SPDX-License-Identifier: Apache-2.0
// A tile of R rows x one vector of columns, held in registers, for products without oneDNN.
#pragma once
#include <cstdint>
#include <cstring>

#include "backend/cpu/gemm/simd.h"

namespace tilelace::cpu {

/// Columns of a register tile: 64 bytes, i.e. one vector of AVX-512, two of AVX2 or four of SSE2.
template <class T>
inline constexpr std::int64_t kLanes = 64 / static_cast<std::int64_t>(sizeof(T));

/// out[R, kLanes] (stride ldout) = a[R, k] (stride lda) * w[k, kLanes].
template <int R, class T>
TILELACE_INLINE_BODY inline void multiply_register_tile(const T* a, std::int64_t lda, const T* w,
                                                        std::int64_t k, T* out,
                                                        std::int64_t ldout) {
  typedef T Vector __attribute__((vector_size(64)));
  Vector sum[R] = {};
  for (std::int64_t i = 0; i < k; ++i) {
    Vector column;
    std::memcpy(&column, w + i * kLanes<T>, sizeof(column));
    for (int r = 0; r < R; ++r) sum[r] += a[r * lda + i] * column;
  }
  for (int r = 0; r < R; ++r) std::memcpy(out + r * ldout, &sum[r], sizeof(Vector));
}

/// The same for any number of rows; out has room for kLanes columns in every row.
template <class T>
void multiply_panel(const T* a, std::int64_t lda, std::int64_t rows, const T* w, std::int64_t k,
                    T* out, std::int64_t ldout) {
  run_simd([=]() TILELACE_INLINE_BODY {
    std::int64_t r = 0;
    for (; r + 6 <= rows; r += 6)
      multiply_register_tile<6>(a + r * lda, lda, w, k, out + r * ldout, ldout);
    for (; r < rows; ++r) multiply_register_tile<1>(a + r * lda, lda, w, k, out + r * ldout, ldout);
  });
}

}  // namespace tilelace::cpu
