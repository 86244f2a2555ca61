// SPDX-License-Identifier: Apache-2.0
// Conversions of arrays, rounded as in core/half.h (to nearest even; NaN stays NaN).
#pragma once
#include <cstdint>

#include "tilelace/dtype.h"

namespace tilelace::cpu {

/// dst[i] = src[i] for n elements; the arrays do not overlap.
void to_float(const void* src, DType dtype, std::int64_t n, float* dst);
void from_float(const float* src, DType dtype, std::int64_t n, void* dst);

/// Address of element i of an array of this type.
inline const void* element(const void* p, DType dtype, std::int64_t i) {
  return static_cast<const char*>(p) + i * static_cast<std::int64_t>(size_of(dtype));
}
inline void* element(void* p, DType dtype, std::int64_t i) {
  return static_cast<char*>(p) + i * static_cast<std::int64_t>(size_of(dtype));
}

}  // namespace tilelace::cpu
