// SPDX-License-Identifier: Apache-2.0
// One worker's GEMM, its epilogue, and the checks that results are held to.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "backend/cpu/gemm/convert.h"
#include "backend/cpu/gemm/epilogue.h"
#include "backend/cpu/gemm/error_bound.h"
#include "backend/cpu/gemm/reference.h"
#include "backend/cpu/gemm/tile_gemm.h"
#include "core/half.h"
#include "tilelace/error.h"

namespace tilelace::cpu {
namespace {

constexpr float kPoison = -12345.0F;

// A matrix that owns its elements; what lies between cols and stride is NaN.
struct Matrix {
  TensorView view;
  std::vector<std::uint32_t> storage;

  Matrix(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t stride)
      : storage(static_cast<std::size_t>(rows * stride + 16), 0xffffffffU) {
    view = {storage.data(), dtype, rows, cols, stride};
  }
  void set(std::int64_t r, std::int64_t c, float value) {
    store_element(view.data, view.dtype, r * view.stride + c, value);
  }
  [[nodiscard]] float at(std::int64_t r, std::int64_t c) const {
    return load_element(view.data, view.dtype, r * view.stride + c);
  }
};

Matrix random_matrix(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t stride,
                     bool integers, unsigned seed) {
  Matrix m(dtype, rows, cols, stride);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      m.set(r, c,
            integers ? static_cast<float>(static_cast<int>(random() % 7) - 3) : normal(random));
  return m;
}

struct Shape {
  std::int64_t rows, n, k;
  int tile_m, tile_n;
  std::int64_t extra_lda, extra_ldc;
};

// Runs all panels over all row tiles into a poisoned c, and compares with fp64: exactly for
// integers, else within the bound.
void check_product(DType dtype, const Shape& s, bool integers, Panels how) {
  SCOPED_TRACE(testing::Message() << name_of(dtype) << (how == Panels::packed ? "" : " in place")
                                  << " rows " << s.rows << " n " << s.n << " k " << s.k << " tile "
                                  << s.tile_m << "x" << s.tile_n << " lda +" << s.extra_lda
                                  << " ldc +" << s.extra_ldc);
  const Matrix a = random_matrix(dtype, s.rows, s.k, s.k + s.extra_lda, integers, 1);
  Matrix w = random_matrix(dtype, s.n, s.k, s.k + 8, integers, 2);
  GemmReference reference(s.rows, s.n);
  reference.add(a.view, w.view);
  const PackedWeight packed(w.view, s.tile_n, how);
  if (how == Panels::packed)
    std::fill(w.storage.begin(), w.storage.end(), 0xffffffffU);  // the copy must not look back
  TileGemm gemm(s.tile_m);
  gemm.prepare(packed);
  int written = 0, wrong = 0;
  for (std::int64_t p = 0; p < packed.panels(); ++p) {
    const std::int64_t cols = packed.panel_cols(p), ldc = cols + s.extra_ldc;
    for (std::int64_t first = 0; first < s.rows; first += s.tile_m) {
      const std::int64_t rows = std::min<std::int64_t>(s.tile_m, s.rows - first);
      std::vector<float> c(static_cast<std::size_t>((s.tile_m + 2) * ldc), kPoison);
      gemm.run(packed, p,
               element(static_cast<const void*>(a.view.data), dtype, first * a.view.stride),
               a.view.stride, rows, c.data(), ldc);
      for (std::size_t i = 0; i < c.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i) / ldc,
                   col = static_cast<std::int64_t>(i) % ldc;
        if (row >= rows || col >= cols) {
          written += c[i] != kPoison;
          continue;
        }
        const auto at = static_cast<std::size_t>((first + row) * s.n + p * s.tile_n + col);
        const double floor = integers ? 0 : 16.0 / 16777216 * reference.abs_sum()[at];
        wrong += !(std::fabs(c[i] - reference.value()[at]) <= floor);
      }
    }
  }
  EXPECT_EQ(written, 0) << "elements outside the tile were written";
  EXPECT_EQ(wrong, 0);
}

void check_product(DType dtype, const Shape& s, bool integers) {
  for (const Panels how : {Panels::packed, Panels::in_place})
    check_product(dtype, s, integers, how);
}

class CpuGemm : public testing::TestWithParam<DType> {};

TEST_P(CpuGemm, IsExactOnSmallIntegers) {
  for (const Shape& s : {Shape{128, 256, 128, 128, 256, 0, 0}, Shape{77, 200, 72, 32, 64, 0, 0},
                         Shape{20, 96, 896, 16, 96, 8, 0}, Shape{5, 1, 8, 8, 64, 0, 3},
                         Shape{3, 17, 1, 8, 16, 0, 0}, Shape{9, 33, 13, 4, 32, 3, 5},
                         Shape{1, 40, 64, 1, 16, 0, 0}, Shape{100, 48, 24, 100, 48, 8, 16}})
    check_product(GetParam(), s, true);
}

TEST_P(CpuGemm, StaysWithinTheBoundOnRandomNumbers) {
  for (const Shape& s : {Shape{130, 300, 512, 128, 256, 0, 0}, Shape{17, 130, 2048, 16, 128, 8, 8}})
    check_product(GetParam(), s, false);
}

TEST_P(CpuGemm, TakesEveryRowCount) {
  for (std::int64_t rows = 0; rows <= 41; ++rows)
    check_product(GetParam(), {rows, 24, 16, 41, 16, rows % 3 * 8, rows % 2 * 4}, true);
}

TEST_P(CpuGemm, EmptySumIsZero) { check_product(GetParam(), {5, 20, 0, 8, 16, 8, 4}, true); }

TEST_P(CpuGemm, UsesAWeightThatWasNotPrepared) {
  const Matrix a = random_matrix(GetParam(), 3, 8, 8, true, 3);
  const Matrix w = random_matrix(GetParam(), 4, 8, 8, true, 4);
  std::vector<double> y(12);
  reference_gemm(a.view, w.view, y.data(), nullptr, false);
  TileGemm gemm(8);
  for (const Panels how : {Panels::packed, Panels::in_place, Panels::packed}) {  // layouts in turns
    const PackedWeight packed(w.view, 16, how);
    std::vector<float> c(12);
    gemm.run(packed, 0, a.view.data, 8, 3, c.data(), 4);
    for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(c[i], y[i]);
    EXPECT_THROW(gemm.run(packed, 0, a.view.data, 8, 9, c.data(), 4), Error);
  }
}

int thread_count() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

TEST_P(CpuGemm, RunsOnTheCallingThreadAlone) {
  const Matrix a = random_matrix(GetParam(), 128, 256, 256, true, 5);
  const Matrix w = random_matrix(GetParam(), 256, 256, 256, true, 6);
  std::thread([] {}).join();  // a sanitizer starts its own thread with the first one
  const int before = thread_count();
  const PackedWeight packed(w.view, 128);
  std::vector<double> y(128 * 256);
  reference_gemm(a.view, w.view, y.data(), nullptr, false);
  int wrong[2] = {}, threads[2] = {};
  auto work = [&](int worker) {
    TileGemm gemm(128);
    gemm.prepare(packed);
    std::vector<float> c(128 * 128);
    for (int round = 0; round < 20; ++round) {
      gemm.run(packed, worker, a.view.data, 256, 128, c.data(), 128);
      threads[worker] = std::max(threads[worker], thread_count());
    }
    for (std::size_t i = 0; i < c.size(); ++i)
      wrong[worker] += c[i] != y[i / 128 * 256 + static_cast<std::size_t>(worker) * 128 + i % 128];
  };
  std::thread first(work, 0), second(work, 1);
  first.join(), second.join();
  EXPECT_EQ(wrong[0] + wrong[1], 0);
  EXPECT_LE(std::max(threads[0], threads[1]), before + 2);
}

INSTANTIATE_TEST_SUITE_P(DTypes, CpuGemm, testing::Values(DType::bf16, DType::fp16, DType::fp32),
                         [](const auto& test) { return std::string(name_of(test.param)); });

// ---- epilogue

// fp32 outputs over a dense range of x: the error, in units of 2^-24 * max(|act(x)|, slope * |x|),
// which is what one rounding of the input already costs.
TEST(CpuEpilogue, ActivationsAreAccurate) {
  for (const Activation activation : {Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    std::vector<float> x, y;
    for (int i = -12000; i <= 12000; ++i) x.push_back(static_cast<float>(i) / 1000.0F * 1.00037F);
    for (const float edge : {1e-30F, -1e-30F, 50.0F, -50.0F, 200.0F, -200.0F, 1e30F, -1e30F})
      x.push_back(edge);
    y.resize(x.size());
    const auto n = static_cast<std::int64_t>(x.size());
    store_tile({activation, DType::fp32}, x.data(), nullptr, n, 1, n, y.data(), n);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = activate_exact(activation, x[i]);
      const double unit =
          std::max({std::fabs(want), std::fabs(activation_slope(activation, x[i]) * x[i]), 1e-30}) /
          16777216;
      worst = std::max(worst, std::fabs(y[i] - want) / unit);
    }
    RecordProperty("activation" + std::to_string(static_cast<int>(activation)),
                   std::to_string(worst));
    EXPECT_LT(worst, 12) << static_cast<int>(activation);
  }
}

TEST(CpuEpilogue, ActivationsKeepNanAndInfinity) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const Activation activation : {Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    const float x[2] = {std::nanf(""), inf};
    float y[2];
    store_tile({activation, DType::fp32}, x, nullptr, 2, 1, 2, y, 2);
    EXPECT_TRUE(std::isnan(y[0])) << static_cast<int>(activation);
    EXPECT_EQ(y[1], inf) << static_cast<int>(activation);
  }
}

double epilogue_value(Activation activation, double gate, double up) {
  const double value = activate_exact(activation, gate);
  return activation == Activation::swiglu ? value * up : value;
}

TEST(CpuEpilogue, StoresBiasActivationAndRounding) {
  const std::int64_t rows = 3, cols = 300, ldacc = 311, ldout = 305;
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const Activation activation : {Activation::none, Activation::gelu, Activation::gelu_tanh,
                                        Activation::silu, Activation::swiglu}) {
      for (const bool with_bias : {false, true}) {
        const Matrix acc = random_matrix(DType::fp32, rows, cols, ldacc, false, 8);
        const Matrix acc2 = random_matrix(DType::fp32, rows, cols, ldacc, false, 9);
        const Matrix bias = random_matrix(dtype, 2, cols, cols, false, 10);
        Matrix out(dtype, rows, cols, ldout);
        const Matrix untouched = out;
        const void* b = bias.view.data;
        const void* b2 = element(b, dtype, cols);
        store_tile({activation, dtype, with_bias ? b : nullptr, with_bias ? b2 : nullptr},
                   static_cast<const float*>(acc.view.data),
                   static_cast<const float*>(acc2.view.data), ldacc, rows, cols, out.view.data,
                   ldout);
        const double u = unit_roundoff(dtype);
        for (std::int64_t i = 0; i < rows * ldout; ++i) {
          const std::int64_t r = i / ldout, c = i % ldout;
          if (c >= cols) {
            EXPECT_TRUE(std::isnan(out.at(r, c)));
            continue;
          }
          const float gate = acc.at(r, c) + (with_bias ? bias.at(0, c) : 0);
          const float up = acc2.at(r, c) + (with_bias ? bias.at(1, c) : 0);
          const double want = epilogue_value(activation, gate, up);
          ASSERT_NEAR(out.at(r, c), want, u * std::fabs(want) + 1e-6 * (1 + std::fabs(gate * up)));
        }
      }
    }
  }
}

TEST(CpuEpilogue, AddsAResidualBeforeTheRounding) {
  const std::int64_t rows = 3, cols = 300;
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const bool with_bias : {false, true}) {
      const Matrix acc = random_matrix(DType::fp32, rows, cols, 311, false, 8);
      const Matrix bias = random_matrix(dtype, 1, cols, cols, false, 10);
      const Matrix residual = random_matrix(dtype, rows, cols, 303, false, 13);
      Matrix out(dtype, rows, cols, 305);
      Epilogue epilogue{Activation::none, dtype, with_bias ? bias.view.data : nullptr};
      epilogue.residual = residual.view.data;
      epilogue.ldresidual = 303;
      store_tile(epilogue, static_cast<const float*>(acc.view.data), nullptr, 311, rows, cols,
                 out.view.data, 305);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < cols; ++c) {
          Matrix want(dtype, 1, 1, 1);
          const float sum = acc.at(r, c) + (with_bias ? bias.at(0, c) : 0.0F);
          want.set(0, 0, sum + residual.at(r, c));
          ASSERT_EQ(out.at(r, c), want.at(0, 0)) << r << " " << c;
        }
      }
    }
  }
}

TEST(CpuEpilogue, SumsPartialsInOrder) {
  const std::int64_t rows = 4, cols = 290;
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    const Matrix first = random_matrix(dtype, rows, cols, 300, false, 11);
    const Matrix second = random_matrix(dtype, rows, cols, 293, false, 12);
    Matrix acc(DType::fp32, rows, cols, 295), out(dtype, rows, cols, 291);
    auto* sum = static_cast<float*>(acc.view.data);
    load_tile(sum, 295, first.view.data, dtype, 300, rows, cols);
    add_tile(sum, 295, second.view.data, dtype, 293, rows, cols);
    round_tile(sum, 295, rows, cols, out.view.data, dtype, 291);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        Matrix want(dtype, 1, 1, 1);
        want.set(0, 0, first.at(r, c) + second.at(r, c));
        ASSERT_EQ(acc.at(r, c), first.at(r, c) + second.at(r, c));
        ASSERT_EQ(out.at(r, c), want.at(0, 0));
      }
      EXPECT_TRUE(std::isnan(acc.at(r, cols)));
      EXPECT_TRUE(std::isnan(out.at(r, cols)));
    }
  }
}

// ---- reference and bounds

TEST(CpuReference, AgreesWithAPlainLoop) {
  const Matrix a = random_matrix(DType::bf16, 101, 300, 304, false, 13);
  const Matrix w = random_matrix(DType::bf16, 21, 300, 320, false, 14);
  std::vector<double> y(101 * 21, 5), abs_sum(101 * 21, 5);
  reference_gemm(a.view, w.view, y.data(), abs_sum.data(), false);
  reference_gemm(a.view, w.view, y.data(), abs_sum.data(), true);
  for (std::int64_t r = 0; r < 101; ++r) {
    for (std::int64_t c = 0; c < 21; ++c) {
      double sum = 0, magnitude = 0;
      for (std::int64_t i = 0; i < 300; ++i) {
        sum += static_cast<double>(a.at(r, i)) * w.at(c, i);
        magnitude += std::fabs(static_cast<double>(a.at(r, i)) * w.at(c, i));
      }
      ASSERT_NEAR(y[static_cast<std::size_t>(r * 21 + c)], 2 * sum, 1e-11);
      ASSERT_NEAR(abs_sum[static_cast<std::size_t>(r * 21 + c)], 2 * magnitude, 1e-11);
    }
  }
}

class ErrorBound : public testing::TestWithParam<Activation> {};

// A correct bf16 result, from four ranks' rounded partials, passes; one without the last rank's
// part, or with a single element off, does not.
TEST_P(ErrorBound, PassesWhatIsRightAndFailsWhatIsNot) {
  const Activation activation = GetParam();
  const bool gated = activation == Activation::swiglu;
  const std::int64_t rows = 33, cols = 47, k = 64;
  for (const bool rounded : {false, true}) {
    GemmReference gate(rows, cols), up(rows, cols);
    std::vector<float> gate_sum(33 * 47), up_sum(33 * 47), without_last;
    for (unsigned rank = 0; rank < 4; ++rank) {
      const Matrix a = random_matrix(DType::bf16, rows, k, k, false, 20 + rank);
      for (const bool second : {false, true}) {
        const Matrix w = random_matrix(DType::bf16, cols, k, k, false, 30 + rank + 10 * second);
        (second ? up : gate).add(a.view, w.view, rounded);
        std::vector<double> y(33 * 47);
        reference_gemm(a.view, w.view, y.data(), nullptr, false);
        auto& sum = second ? up_sum : gate_sum;
        if (!second && rank == 3) without_last = sum;
        for (std::size_t i = 0; i < y.size(); ++i) {
          const auto part = static_cast<float>(y[i]);
          sum[i] += rounded ? bf16_to_float(float_to_bf16(part)) : part;
        }
      }
    }
    Matrix out(DType::bf16, rows, cols, 50);
    const ErrorModel model{activation};
    auto check = [&](const std::vector<float>& sum) {
      store_tile({activation, DType::bf16}, sum.data(), up_sum.data(), cols, rows, cols,
                 out.view.data, 50);
      return check_gemm(out.view, model, gate, gated ? &up : nullptr);
    };
    EXPECT_FALSE(check(without_last).pass);
    const GemmError good = check(gate_sum);
    EXPECT_TRUE(good.pass) << good.worst << " at " << good.row << ", " << good.col << "; "
                           << good.frobenius << " of " << good.allowed_frobenius;
    EXPECT_GT(good.frobenius, 0.1 * good.allowed_frobenius);
    out.set(5, 7, out.at(5, 7) + 4.0F + std::fabs(out.at(5, 7)));
    const GemmError bad = check_gemm(out.view, model, gate, gated ? &up : nullptr);
    EXPECT_FALSE(bad.pass);
    EXPECT_EQ(bad.row, 5);
    EXPECT_EQ(bad.col, 7);
    out.set(5, 7, std::nanf(""));
    EXPECT_FALSE(check_gemm(out.view, model, gate, gated ? &up : nullptr).pass);
  }
}

INSTANTIATE_TEST_SUITE_P(Activations, ErrorBound,
                         testing::Values(Activation::none, Activation::gelu, Activation::gelu_tanh,
                                         Activation::silu, Activation::swiglu));

}  // namespace
}  // namespace tilelace::cpu
