// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backend/cuda/device/ptx.h"
#include "tilelace/choices.h"

namespace tilelace::cuda {

/// Activations in fp32, a few ulp each also where they are nearly 0 (no 1 + tanh, no 1 + erf).
TILELACE_DEVICE float activate(Activation kind, float x) {
  switch (kind) {
    case Activation::gelu: return 0.5F * x * erfcf(-0.70710678118654752F * x);
    case Activation::gelu_tanh: {
      const float twice = x * (1.5957691216057308F + 0.071354816272F * x * x);
      return __fdividef(x, 1.0F + __expf(-twice));
    }
    case Activation::silu: return __fdividef(x, 1.0F + __expf(-x));
    default: return x;
  }
}

/// Of eight values, where there is one. One copy of the code, the values move past it: eight would
/// not fit the instruction cache.
TILELACE_DEVICE void activate(Activation kind, float (&f)[8]) {
#pragma unroll 1
  for (int i = 0; i < 8; ++i) {
    const float x = activate(kind, f[0]);
#pragma unroll
    for (int e = 0; e < 7; ++e) f[e] = f[e + 1];
    f[7] = x;
  }
}

}  // namespace tilelace::cuda
