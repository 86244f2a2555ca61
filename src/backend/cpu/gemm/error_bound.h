// SPDX-License-Identifier: Apache-2.0
// The error bounds that every result must meet (check_gemm has the formula).
#pragma once
#include <cstdint>

#include "backend/cpu/gemm/reference.h"
#include "tilelace/plan.h"

namespace tilelace::cpu {

/// How an output was computed. Roundings may cause a relative Frobenius error of frobenius_factor
/// times u, the type's roundoff. A factor of 0 means 0.52, or 0.72 if the reference has rounded
/// partials. If values are rounded more often, the factor must be larger (a bf16 ring: 1.15).
struct ErrorModel {
  Activation activation = Activation::none;
  int roundings = 1;  ///< roundings of the value itself, without those of partials
  double frobenius_factor = 0;
};

struct GemmError {
  double worst = 0;              ///< largest |error| / bound of an element
  double frobenius = 0;          ///< |error|_F / |reference|_F
  double allowed_frobenius = 0;  ///< limit of `frobenius`
  std::int64_t row = -1;         ///< first element that exceeds its bound; -1: none
  std::int64_t col = -1;
  double got = 0, expected = 0;  ///< values of that element
  bool pass = false;
};

/// Compares `out` with the reference of the same block; `up` is the second product of swiglu.
/// An element x before the activation may be off by
///   b = u * sum |rounded partials| + 16 * 2^-24 * sum |a b|;
/// the result y may be off by
///   roundings * (u * |y| + the type's underflow threshold) + b * max |act'| over [x - b, x + b].
/// The maximum is at an end of the interval or at one of the two points where act'' = 0, so the
/// bound is exact and not sampled. A NaN or infinity fails.
GemmError check_gemm(const TensorView& out, const ErrorModel& model, const GemmReference& gate,
                     const GemmReference* up = nullptr);

/// The activation in fp64, and its derivative. For swiglu: those of silu, the gate's function.
double activate_exact(Activation activation, double x);
double activation_slope(Activation activation, double x);

}  // namespace tilelace::cpu
