// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/gemm/error_bound.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numbers>

#include "core/check.h"
#include "core/half.h"

namespace tilelace::cpu {
namespace {

constexpr double kSqrt1_2 = 1 / std::numbers::sqrt2;
constexpr double kInvSqrt2Pi = 0.39894228040143267794;
constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double kCubic = 0.044715;
constexpr double kFp32Floor = 16.0 / 16777216;
constexpr double kFinalFactor = 0.52, kRoundedFactor = 0.72;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// |x| where act' has its extrema, the zeros of act''. gelu: act'' = phi(x) (2 - x^2); the other two
// were found by bisection of act''.
double slope_extremum(Activation activation) {
  switch (activation) {
    case Activation::gelu: return std::numbers::sqrt2;
    case Activation::gelu_tanh: return 1.4185040088;
    case Activation::silu:
    case Activation::swiglu: return 2.3993572805;
    case Activation::none: break;
  }
  return 0;
}

// act' is monotone between its extrema.
double max_slope(Activation activation, double lo, double hi) {
  if (activation == Activation::none) return 1;
  double slope = std::max(std::fabs(activation_slope(activation, lo)),
                          std::fabs(activation_slope(activation, hi)));
  const double extremum = slope_extremum(activation);
  for (const double at : {-extremum, extremum})
    if (lo < at && at < hi) slope = std::max(slope, std::fabs(activation_slope(activation, at)));
  return slope;
}

// One input of the activation: its value, how far off it may be, and the parts of that.
struct Input {
  double value, floor, rounding;
  [[nodiscard]] double bound() const { return floor + rounding; }
};

Input input_at(const GemmReference& reference, std::size_t i, double u) {
  return {reference.value()[i], kFp32Floor * reference.abs_sum()[i],
          u * reference.rounded_sum()[i]};
}

// An element's reference, its bound before the final rounding, and what feeds the norms: the fp32
// floor and the magnitude of rounded values, both brought through the activation.
struct Expected {
  double value, bound, floor, rounded;
};

Expected expect_plain(Activation activation, const Input& x) {
  const double slope = max_slope(activation, x.value - x.bound(), x.value + x.bound());
  return {activate_exact(activation, x.value), slope * x.bound(), slope * x.floor,
          slope * std::fabs(x.value)};
}

// silu(g) * u: |error| <= |u| s bg + |silu(g)| bu + s bg bu, with s the steepest slope near g.
Expected expect_gated(const Input& g, const Input& up) {
  const Expected gate = expect_plain(Activation::silu, g);
  const double bound = std::fabs(up.value) * gate.bound + std::fabs(gate.value) * up.bound() +
                       gate.bound * up.bound();
  const double floor = std::fabs(up.value) * gate.floor + std::fabs(gate.value) * up.floor;
  const double value = gate.value * up.value;
  return {value, bound, floor, std::hypot(up.value * gate.rounded, value)};
}

// Where the type runs out of exponent: half a step of its subnormals; the smallest normal number of
// types whose subnormals fast arithmetic flushes to zero.
double underflow(DType dtype) { return std::ldexp(1.0, row_of(dtype).underflow_exponent); }

struct Norms {
  double error = 0, value = 0, floor = 0, rounded = 0, underflow = 0;
};

double allowed_frobenius(const ErrorModel& model, const Norms& norms, double u, bool rounded) {
  const double value = std::sqrt(norms.value);
  double rounding = kFinalFactor * u * value;
  if (model.frobenius_factor > 0) {
    rounding = model.frobenius_factor * u * std::max(value, std::sqrt(norms.rounded));
  } else if (rounded) {
    // 0.72^2 = 0.52^2 for the last rounding plus the rest for the partials'.
    const double rest = kRoundedFactor * kRoundedFactor - kFinalFactor * kFinalFactor;
    rounding = std::hypot(rounding, std::sqrt(rest * norms.rounded) * u);
  }
  return rounding + std::sqrt(norms.floor) + std::sqrt(norms.underflow);
}

}  // namespace

double activate_exact(Activation activation, double x) {
  switch (activation) {
    case Activation::gelu: return 0.5 * x * std::erfc(-x * kSqrt1_2);
    case Activation::gelu_tanh: return x * sigmoid(2 * kSqrt2OverPi * (x + kCubic * x * x * x));
    case Activation::silu:
    case Activation::swiglu: return x * sigmoid(x);
    case Activation::none: break;
  }
  return x;
}

double activation_slope(Activation activation, double x) {
  switch (activation) {
    case Activation::gelu:
      return 0.5 * std::erfc(-x * kSqrt1_2) + x * kInvSqrt2Pi * std::exp(-0.5 * x * x);
    case Activation::gelu_tanh: {
      const double s = sigmoid(2 * kSqrt2OverPi * (x + kCubic * x * x * x));
      return s + x * s * (1 - s) * 2 * kSqrt2OverPi * (1 + 3 * kCubic * x * x);
    }
    case Activation::silu:
    case Activation::swiglu: {
      const double s = sigmoid(x);
      return s + x * s * (1 - s);
    }
    case Activation::none: break;
  }
  return 1;
}

GemmError check_gemm(const TensorView& out, const ErrorModel& model, const GemmReference& gate,
                     const GemmReference* up) {
  require(out.rows == gate.rows() && out.cols == gate.cols(),
          "check gemm: block: got {} x {}, expected {} x {}", out.rows, out.cols, gate.rows(),
          gate.cols());
  require(
      (model.activation == Activation::swiglu) == (up != nullptr),
      "check gemm: reference of up: got {}, expected one if the activation is swiglu, else none",
      up == nullptr ? "none" : "one");
  const double u = unit_roundoff(out.dtype), tiny = underflow(out.dtype);
  GemmError result;
  Norms norms;
  for (std::int64_t i = 0; i < out.rows * out.cols; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t row = i / out.cols, col = i % out.cols;
    const Input x = input_at(gate, at, u);
    const Expected y =
        up == nullptr ? expect_plain(model.activation, x) : expect_gated(x, input_at(*up, at, u));
    const double got = load_element(out.data, out.dtype, row * out.stride + col);
    const double error = std::fabs(got - y.value);
    const double bound = model.roundings * (u * std::fabs(y.value) + tiny) + y.bound;
    const bool good = error <= bound;  // false for NaN
    const double ratio = error == 0 ? 0 : good || bound > 0 ? error / bound : HUGE_VAL;
    if (!(ratio <= result.worst)) result.worst = ratio;
    if (!good && result.row < 0) {
      result.row = row, result.col = col;
      result.got = got, result.expected = y.value;
    }
    norms.error += error * error;
    norms.value += y.value * y.value;
    norms.floor += y.floor * y.floor;
    norms.rounded += y.rounded * y.rounded;
    norms.underflow += tiny * tiny;
  }
  const bool rounded = std::any_of(gate.rounded_sum().begin(), gate.rounded_sum().end(),
                                   [](double v) { return v != 0; });
  const double scale = norms.value > 0 ? 1 / std::sqrt(norms.value) : 1;
  result.frobenius = std::sqrt(norms.error) * scale;
  result.allowed_frobenius = allowed_frobenius(model, norms, u, rounded) * scale;
  result.pass = result.row < 0 && result.frobenius <= result.allowed_frobenius;
  return result;
}

}  // namespace tilelace::cpu
