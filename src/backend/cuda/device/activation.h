// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backend/cuda/device/ptx.h"
#include "tilelace/choices.h"

namespace tilelace::cuda {

/// Activations in fp32, accurate to a few ulp also where 1 + tanh or 1 + erf would cancel.
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

/// Rotates the values so that the first kBy values move to the end.
template <int kBy, int kValues>
TILELACE_DEVICE void rotate(float* f) {
  float front[kBy];
#pragma unroll
  for (int e = 0; e < kBy; ++e) front[e] = f[e];
#pragma unroll
  for (int e = 0; e < kValues; ++e)
    f[e] = e + kBy < kValues ? f[e + kBy] : front[e + kBy - kValues];
}

/// Applies an activation to kValues values (a multiple of four). The code exists once and values
/// are rotated through it, because one copy per value would not fit the instruction cache.
template <int kValues>
TILELACE_DEVICE void activate(Activation kind, float* f) {
  constexpr int kTogether = kValues % 8 == 0 ? 8 : 4;
#pragma unroll 1
  for (int i = 0; i < kValues; i += kTogether) {
#pragma unroll 1
    for (int e = 0; e < kTogether; ++e) {
      f[0] = activate(kind, f[0]);
      rotate<1, kTogether>(f);
    }
    if (kValues > kTogether) rotate<kTogether, kValues>(f);
  }
}

}  // namespace tilelace::cuda
