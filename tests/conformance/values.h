// SPDX-License-Identifier: Apache-2.0
// Computes values of operands' elements and error bounds of results, on host and device.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/host_device.h"
#include "plan/gemm/gemm_plan.h"
#include "tilelace/plan.h"

namespace tilelace::test {

constexpr std::uint8_t kPoison = 0xFF;  // Elements made of this byte are NaNs in every type.

/// Hashes a position to a number (splitmix64).
TILELACE_HD inline std::uint64_t hash(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// Column of the i-th non-zero of a sparse row. Two non-zeros may have the same column.
TILELACE_HD inline std::int64_t sparse_col(std::uint64_t seed, std::int64_t row, int i,
                                           std::int64_t cols) {
  const std::uint64_t h =
      hash(seed + static_cast<std::uint64_t>(row) * 4099 + static_cast<std::uint64_t>(i));
  return static_cast<std::int64_t>(h % static_cast<std::uint64_t>(cols));
}

/// The value of the non-zero at this row and column.
TILELACE_HD inline float sparse_value(std::uint64_t seed, std::int64_t row, std::int64_t col,
                                      std::int64_t cols) {
  const std::uint64_t h = hash(seed * 31 + static_cast<std::uint64_t>(row * cols + col));
  return (h & 1) != 0 ? 1.0F : -1.0F;
}

/// A value distributed about like N(0, 1), the sum of three uniform 21-bit numbers. The sum is
/// exact in fp32, and equal on hosts and devices. `place`: the element's index in the whole tensor.
TILELACE_HD inline float normal_value(std::uint64_t seed, std::uint64_t place) {
  constexpr std::uint64_t kMask = (1U << 21U) - 1;
  const std::uint64_t h = hash(seed * 0x100000001B3ULL + place);
  const auto sum =
      static_cast<std::int64_t>((h & kMask) + ((h >> 21U) & kMask) + ((h >> 42U) & kMask));
  return static_cast<float>(sum - (std::int64_t{3} << 20U)) * 0x1p-20F;
}

/// How many non-zeros a row of {-1, 0, 1} may have. Sums over all ranks, with bias and residual,
/// are exact up to 1 / unit_roundoff. 0: even one non-zero is too many.
inline std::int64_t exact_per_row(DType type, int ranks) {
  const auto most = static_cast<std::int64_t>(1 / unit_roundoff(type)) - 2;
  return std::min<std::int64_t>(31, most / ranks);
}

/// A product whose k is split into parts, one per rank. Each part has its own operand and weight.
struct Parts {
  int count = 1;
  std::int64_t a = 0, weight = 0;  ///< strides between parts of `a` and of `weight`, in elements
  int roundings =
      0;  ///< how often a part, or a sum of some parts, is rounded before the last rounding
};

struct Judged {
  const void* a;
  const void* weight;
  const void* bias;
  const void* out;
  plan::GemmProblem problem;
  Activation activation;
  Parts parts = {};
  const void* up = nullptr;  ///< the weight of up in a gated problem (swiglu), or null
  const void* up_bias = nullptr;
  const void* residual = nullptr;  ///< a matrix shaped like out, added to the product; null: none
  std::int64_t stride = 0;         ///< elements from one row of out to the next; 0: dense
};

struct Rule {
  double u = 0;
  double tiny = 0;             ///< error of rounding to a subnormal number
  double extra_roundings = 0;  ///< error of an activation, as a multiple of 2^-24 * |result|
  bool exact = false;
  std::int64_t samples = 0, skip_k = 0;
  std::int64_t n = 0;  ///< columns of the result
};

inline Rule rule_of(const Judged& j, std::int64_t samples, bool exact, std::int64_t skip_k) {
  return {unit_roundoff(j.problem.dtype),
          std::ldexp(1.0, row_of(j.problem.dtype).underflow_exponent),
          j.activation == Activation::none ? 0.0 : 16.0,
          exact,
          samples,
          skip_k,
          j.problem.out_n()};
}

/// Number of threads that compute one element: a warp on GPUs, one thread elsewhere.
#ifdef __CUDA_ARCH__
constexpr int kLanes = 32;
#else
constexpr int kLanes = 1;
#endif

TILELACE_HD inline void add_up_lanes([[maybe_unused]] double& x) {
#ifdef __CUDA_ARCH__
  for (int d = kLanes / 2; d > 0; d /= 2) x += __shfl_xor_sync(~0U, x, d);
#endif
}

TILELACE_HD inline double activate64(Activation kind, double x) {
  switch (kind) {
    case Activation::gelu: return 0.5 * x * std::erfc(-x * 0.70710678118654752440);
    case Activation::gelu_tanh:
      return x / (1 + std::exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case Activation::silu: return x / (1 + std::exp(-x));
    default: return x;
  }
}

template <class T>
TILELACE_HD double as_double(const void* data, std::int64_t i) {
  return static_cast<double>(static_cast<float>(static_cast<const T*>(data)[i]));
}

/// The weight and the bias of a product.
struct Factor {
  const void* weight;
  const void* bias;
};

/// Computes an element of one part's product. Lanes split k. Adds the sum of |a w| to `magnitude`.
template <class T>
TILELACE_HD double product_of(const Judged& j, const void* weight, int part, std::int64_t row,
                              std::int64_t col, const Rule& rule, int lane, double& magnitude) {
  const std::int64_t k = j.problem.k;
  const auto* a = static_cast<const T*>(j.a) + part * j.parts.a + row * k;
  const auto* w = static_cast<const T*>(weight) + part * j.parts.weight + col * k;
  double sum = 0;
  double absolute = 0;
  for (std::int64_t x = rule.skip_k + lane; x < k; x += kLanes) {
    const double term = as_double<T>(a, x) * as_double<T>(w, x);
    sum += term;
    absolute += std::fabs(term);
  }
  add_up_lanes(sum);
  add_up_lanes(absolute);
  magnitude += absolute;
  return sum;
}

/// `value`: an element in fp64. `before`: a bound of the result's error before its last rounding.
struct Expected {
  double value, before;
};

/// The sum to which the activation is applied.
template <class T>
TILELACE_HD Expected expect_sum(const Judged& j, const Rule& rule, Factor f, std::int64_t row,
                                std::int64_t col, int lane) {
  double sum = 0;
  double magnitude = 0;
  double rounded = 0;  // magnitude of terms that are rounded before the sum
  for (int part = 0; part < j.parts.count; ++part) {
    const double partial = product_of<T>(j, f.weight, part, row, col, rule, lane, magnitude);
    sum += partial;
    rounded += j.parts.roundings * std::fabs(partial);
  }
  const auto add = [&](double x) {
    sum += x;
    magnitude += std::fabs(x);
  };
  if (j.residual != nullptr)
    add(as_double<T>(j.residual, row * (j.stride > 0 ? j.stride : rule.n) + col));
  if (f.bias != nullptr) add(as_double<T>(f.bias, col));
  const double tiny = rule.tiny * j.parts.count * j.parts.roundings;
  return {sum, 0x1p-24 * 16 * magnitude + rule.u * rounded + tiny};
}

TILELACE_HD inline Expected expect_activated(Activation activation, const Rule& rule, Expected x) {
  // The slope of all activations is at most 1.13.
  const double slope = activation == Activation::none ? 1 : 1.13;
  const double y = activate64(activation, x.value);
  return {y, slope * x.before + 0x1p-24 * rule.extra_roundings * std::fabs(y)};
}

/// The product of two values with errors; the product is rounded to fp32.
TILELACE_HD inline Expected expect_product(Expected x, Expected y) {
  const double value = x.value * y.value;
  return {value, std::fabs(y.value) * x.before + std::fabs(x.value) * y.before +
                     x.before * y.before + 0x1p-24 * std::fabs(value)};
}

template <class T>
TILELACE_HD Expected expect(const Judged& j, const Rule& rule, std::int64_t row, std::int64_t col,
                            int lane = 0) {
  const Expected x = expect_sum<T>(j, rule, {j.weight, j.bias}, row, col, lane);
  if (!j.problem.gated) return expect_activated(j.activation, rule, x);
  return expect_product(expect_activated(Activation::silu, rule, x),
                        expect_sum<T>(j, rule, {j.up, j.up_bias}, row, col, lane));
}

struct Difference {
  std::uint64_t words = 0;  ///< number of differing words, each as wide as an element
  std::int64_t first = -1, last = -1;
};

/// The bound of a result's error.
TILELACE_HD inline double bound_of(const Rule& rule, Expected e) {
  return rule.exact ? 0 : rule.u * (std::fabs(e.value) + e.before) + e.before + rule.tiny;
}

struct Judgement {
  std::uint64_t checked = 0;
  std::uint64_t wrong = 0;          ///< elements outside their bound
  double error = 0;                 ///< sum of squared differences
  double norm = 0;                  ///< sum of squared expected values
  std::int64_t row = -1, col = -1;  ///< one wrong element
  double got = 0, expected = 0;
  std::int64_t first_row = -1, last_row = -1;  ///< the first and last row with wrong elements
  [[nodiscard]] double relative() const {
    return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
  }
};

}  // namespace tilelace::test
