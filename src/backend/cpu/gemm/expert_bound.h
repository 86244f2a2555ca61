// SPDX-License-Identifier: Apache-2.0
// The steps of a mixture of experts in fp64, each with a bound on the error of the same step in
// fp32.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tilelace/moe.h"

namespace tilelace::cpu {

/// An exact value, and a bound on how far off the computed value may be.
struct Within {
  double value = 0, off = 0;
};

/// fp32's unit roundoff.
constexpr double kUnit32 = 1.0 / 16777216;

inline Within rounded(Within x, DType t) {
  const DTypeRow& row = row_of(t);
  const double low = std::ldexp(1.0, row.underflow_exponent);
  return {x.value, x.off + row.roundoff * (std::fabs(x.value) + x.off) + low};
}
inline Within times(Within x, double factor) {
  const double size = std::fabs(factor);
  return {x.value * factor, size * (x.off + kUnit32 * (std::fabs(x.value) + x.off))};
}
/// The sum of terms that are added in fp32, one after the other.
inline Within added(const std::vector<Within>& terms) {
  Within sum;
  double sizes = 0;
  for (const Within& t : terms) {
    sum.value += t.value, sum.off += t.off;
    sizes += std::fabs(t.value) + t.off;
  }
  sum.off += static_cast<double>(terms.size()) * kUnit32 * sizes;
  return sum;
}

/// Upper bound of the slope of all activations (gelu's largest is 1.129).
constexpr double kSteepest = 1.13;
/// Bound on the relative error of evaluating an activation in fp32.
constexpr double kEvaluated = 16 * kUnit32;

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

inline double activated(ExpertActivation a, double x) {
  switch (a) {
    case ExpertActivation::none: return x;
    case ExpertActivation::gelu: return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
    case ExpertActivation::gelu_tanh:
      return x * sigmoid(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
    case ExpertActivation::silu:
    case ExpertActivation::swiglu: return x * sigmoid(x);
    case ExpertActivation::swiglu_clamped: {
      const double gate = std::min<double>(x, kSwigluLimit);
      return gate * sigmoid(static_cast<double>(kSwigluAlpha) * gate);
    }
  }
  return x;
}

/// `up` is used by gated activations only.
inline Within activated(ExpertActivation a, Within x, Within up) {
  const double gate = activated(a, x.value);
  const double off = a == ExpertActivation::none ? x.off : kSteepest * x.off;
  if (a == ExpertActivation::none) return x;
  double factor = 1, factor_off = 0;
  if (row_of(a).gated) {
    const double limit = kSwigluLimit;
    const bool clamped = a == ExpertActivation::swiglu_clamped;
    factor = clamped ? std::clamp(up.value, -limit, limit) + 1 : up.value;
    factor_off = up.off + (clamped ? kUnit32 * (limit + 1) : 0);
  }
  const double value = gate * factor;
  return {value, off * (std::fabs(factor) + factor_off) + std::fabs(gate) * factor_off +
                     kEvaluated * (std::fabs(value) + off * std::fabs(factor))};
}

/// The product of a row of x and a row of a weight, plus a bias.
inline Within dot(const float* x, const float* w, std::int64_t k, double bias) {
  double value = bias, sizes = std::fabs(bias);
  for (std::int64_t i = 0; i < k; ++i) {
    const double term = static_cast<double>(x[i]) * w[i];
    value += term, sizes += std::fabs(term);
  }
  return {value, 16 * kUnit32 * sizes};
}

}  // namespace tilelace::cpu
