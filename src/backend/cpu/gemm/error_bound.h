// SPDX-License-Identifier: Apache-2.0
// The error bounds that every result is held to (docs: how results are checked).
#pragma once
#include <cstdint>

#include "backend/cpu/gemm/reference.h"
#include "tilelace/plan.h"

namespace tilelace::cpu {

/// Says how the output came about. `frobenius_factor` 0 takes 0.52 u, or 0.72 u when the reference
/// holds rounded partials; give it for methods that round more often (a bf16 ring: 1.15).
struct ErrorModel {
  Activation activation = Activation::none;
  int roundings = 1;  ///< of the value itself; partial sums are counted by the reference
  double frobenius_factor = 0;
};

struct GemmError {
  double worst = 0;              ///< largest |error| / bound of an element
  double frobenius = 0;          ///< |error|_F / |reference|_F
  double allowed_frobenius = 0;  ///< what `frobenius` may be
  std::int64_t row = -1;         ///< first element beyond its bound, -1 when there is none
  std::int64_t col = -1;
  double got = 0, expected = 0;  ///< of that element
  bool pass = false;
};

/// Compares `out` with the reference of the same block; `up` is the second product of swiglu.
/// An element x before the activation may be off by
///   b = u * sum |rounded partials| + 16 * 2^-24 * sum |a b|;
/// the result by roundings * u * |y| + max |act'| over [x - b, x + b] * b, where the maximum is at
/// an end of the interval or at one of the two extrema of act'. A NaN or infinity fails.
/// Values too small for the type's exponent may be off by its underflow threshold.
/// Both extrema follow from act'' = 0, so the bound on the slope is exact, not sampled.
GemmError check_gemm(const TensorView& out, const ErrorModel& model, const GemmReference& gate,
                     const GemmReference* up = nullptr);

/// The activation in fp64 and its derivative (swiglu: that of the gate, silu).
double activate_exact(Activation activation, double x);
double activation_slope(Activation activation, double x);

}  // namespace tilelace::cpu
