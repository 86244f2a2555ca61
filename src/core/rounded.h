// SPDX-License-Identifier: Apache-2.0
// fp32 operations that are each rounded separately, so that hosts and devices give the same bits.
#pragma once
#include <cmath>

#include "core/host_device.h"

namespace tilelace::rounded {

#if defined(__CUDA_ARCH__)
__device__ __forceinline__ float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float times(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float over(float a, float b) { return __fdiv_rn(a, b); }
__device__ __forceinline__ float inverse_root(float a) { return __frsqrt_rn(a); }
#else
// Sources that use these must be compiled with -ffp-contract=off.
TILELACE_HD inline float plus(float a, float b) { return a + b; }
TILELACE_HD inline float times(float a, float b) { return a * b; }
TILELACE_HD inline float over(float a, float b) { return a / b; }
// Correctly rounded: the double is never so near to the midpoint of two floats that the cast errs.
TILELACE_HD inline float inverse_root(float a) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(a)));
}
#endif

}  // namespace tilelace::rounded
