// SPDX-License-Identifier: Apache-2.0
// The passes of a mixture of experts on a CPU, bit for bit where a loop says what they give, and
// the public grouped_gemm.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "backend/backend.h"
#include "core/half.h"
#include "tilelace/error.h"
#include "tilelace/moe.h"

namespace tilelace {
namespace {

using schedule::MoeMap;

/// A dense matrix that owns its elements.
struct Matrix {
  Matrix(DType dtype, std::int64_t rows, std::int64_t cols, unsigned seed = 0)
      : memory(static_cast<std::size_t>(rows * cols) + 16) {
    view = dense(memory.data(), dtype, rows, cols);
    while (reinterpret_cast<std::uintptr_t>(view.data) % 16 != 0)
      view.data = static_cast<std::byte*>(view.data) + sizeof(double);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < rows * cols; ++i)
      set(i, seed == 0 ? std::nanf("") : normal(random));
  }
  void set(std::int64_t i, float v) { store_element(view.data, view.dtype, i, v); }
  [[nodiscard]] float at(std::int64_t i) const { return load_element(view.data, view.dtype, i); }

  std::vector<double> memory;
  TensorView view;
};

float as(DType dtype, float value) {
  std::byte word[8];
  store_element(word, dtype, 0, value);
  return load_element(word, dtype, 0);
}

struct Routed {
  MoeMap shape{5, 3, 4, 1, 2};
  std::vector<std::int32_t> ids{1, 2, 1, -1, 0, 3, 2, 2, 2, 1, -1, 2, 0, 0, 1};
  std::vector<float> weights{0.3F, 0.7F, 1.1F, NAN,  NAN, NAN, 0.01F, 3,
                             0.2F, 0.5F, NAN,  0.9F, NAN, NAN, 0.6F};
  std::vector<std::int32_t> map =
      std::vector<std::int32_t>(static_cast<std::size_t>(shape.words()));
  std::unique_ptr<MoePasses> passes = make_cpu_moe_passes();

  Routed() {
    passes->make_map({shape, ids.data(), Item::i32, map.data(), nullptr});
    passes->keep_weights(shape, weights.data(), map.data(), nullptr);
  }
  [[nodiscard]] std::int64_t rows() const { return map[2]; }
  [[nodiscard]] std::int32_t row_of(std::int64_t pair) const {
    return map[static_cast<std::size_t>(shape.row_of() + pair)];
  }
};

TEST(MoePasses, SlotsAreAddedInTheirOrderThenTheTermAndRoundedOnce) {
  for (const DTypeRow& type : kDTypes) {
    Routed r;
    const std::int64_t n = 264, first = 2;
    const Matrix rows(type.type, r.shape.pairs(), n, 1), add(type.type, 2, n, 2);
    const Matrix out(type.type, r.shape.m, n);
    r.passes->sum_slots({r.shape, r.map.data(), rows.view, add.view, first, out.view, nullptr});
    for (std::int64_t t = 0; t < r.shape.m; ++t)
      for (std::int64_t i = 0; i < n; ++i) {
        float sum = 0;
        for (std::int64_t s = 0; s < r.shape.top_k; ++s)
          if (const auto row = r.row_of(t * r.shape.top_k + s); row >= 0)
            sum += rows.at(row * n + i);
        if (t >= first && t < first + 2) sum += add.at((t - first) * n + i);
        ASSERT_EQ(out.at(t * n + i), as(type.type, sum)) << type.name << " " << t << " " << i;
      }
  }
}

TEST(MoePasses, RowsArePermutedAndWeightedInFp32) {
  for (const bool weighted : {false, true}) {
    Routed r;
    const std::int64_t n = 24;
    const DType type = kDTypes[0].type;
    const Matrix x(type, r.shape.m, n, 3), rows(type, r.shape.pairs(), n);
    r.passes->permute({r.shape, r.map.data(), x.view, rows.view, weighted, nullptr});
    for (std::int64_t pair = 0; pair < r.shape.pairs(); ++pair)
      for (std::int64_t i = 0; i < n && r.row_of(pair) >= 0; ++i) {
        const float token = x.at(pair / r.shape.top_k * n + i);
        const float weight = weighted ? r.weights[static_cast<std::size_t>(pair)] : 1;
        ASSERT_EQ(rows.at(r.row_of(pair) * n + i), as(type, token * weight));
      }
    for (std::int64_t i = r.rows() * n; i < r.shape.pairs() * n; ++i)
      ASSERT_TRUE(std::isnan(rows.at(i))) << "a row beyond the last";
  }
}

/// A grouped product with its tensors.
struct Product {
  static constexpr std::int64_t kRows = 120, kK = 40, kN = 72, kExperts = 4;
  Matrix x, weight, bias, out;
  std::vector<std::int32_t> begins{0, 53, 53, 110, 113};
  std::vector<float> scales;
  GroupedGemmArgs args;

  Product(DType type, ExpertActivation a)
      : x(type, kRows, kK, 4),
        weight(type, kExperts * width(a), kK, 5),
        bias(type, kExperts, width(a), 6),
        out(type, kRows, kN),
        scales(kRows, 0.375F) {
    args = {x.view, begins.data(), kExperts, weight.view, bias.view, a};
    args.scales = scales.data();
    args.out = out.view;
  }
  static std::int64_t width(ExpertActivation a) { return row_of(a).gated ? 2 * kN : kN; }
};

TEST(GroupedGemm, ARowsBitsDependOnNothingBesideIt) {
  for (const auto& activation : kExpertActivations) {
    Product all(kDTypes[0].type, activation.activation);
    grouped_gemm(all.args);
    for (const std::int64_t row : {0, 52, 53, 109, 110, 112}) {
      Product one(kDTypes[0].type, activation.activation);
      const std::int64_t expert = row < 53 ? 0 : row < 110 ? 2 : 3;
      for (std::int64_t e = 0; e <= Product::kExperts; ++e)
        one.begins[static_cast<std::size_t>(e)] = e > expert ? 1 : 0;
      for (std::int64_t i = 0; i < Product::kK; ++i) one.x.set(i, all.x.at(row * Product::kK + i));
      grouped_gemm(one.args);
      for (std::int64_t i = 0; i < Product::kN; ++i)
        ASSERT_EQ(one.out.at(i), all.out.at(row * Product::kN + i)) << activation.name;
    }
    for (std::int64_t i = 113 * Product::kN; i < Product::kRows * Product::kN; ++i)
      ASSERT_TRUE(std::isnan(all.out.at(i))) << "a row beyond the experts'";
  }
}

TEST(GroupedGemm, ScalesAreThoseOfSources) {
  Product by_row(kAccumulator, ExpertActivation::silu),
      by_source(kAccumulator, ExpertActivation::silu);
  std::vector<std::int32_t> sources(Product::kRows);
  std::vector<float> shuffled(Product::kRows);
  for (std::size_t r = 0; r < sources.size(); ++r) {
    by_row.scales[r] = static_cast<float>(r);
    sources[r] = static_cast<std::int32_t>((r * 7 + 3) % sources.size());
    shuffled[static_cast<std::size_t>(sources[r])] = static_cast<float>(r);
  }
  by_source.args.scales = shuffled.data();
  by_source.args.sources = sources.data();
  grouped_gemm(by_row.args);
  grouped_gemm(by_source.args);
  for (std::int64_t i = 0; i < 113 * Product::kN; ++i)
    ASSERT_EQ(by_row.out.at(i), by_source.out.at(i));
}

TEST(GroupedGemm, ClampedGatesStandBesideTheirUps) {
  Product p(kAccumulator, ExpertActivation::swiglu_clamped);
  p.args.bias = {}, p.args.scales = nullptr;
  // The product of unit rows is the weight's own column.
  for (std::int64_t i = 0; i < Product::kK; ++i) p.x.set(i, i == 0 ? 1.0F : 0.0F);
  const auto value = [&](float gate, float up) {
    p.weight.set(0, gate), p.weight.set(Product::kK, up);
    grouped_gemm(p.args);
    return p.out.at(0);
  };
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_NEAR(value(2, 3), 4 * 2 * sigmoid(1.702 * 2), 1e-5);
  EXPECT_NEAR(value(9, 8), 8 * 7 * sigmoid(1.702 * 7), 1e-4);
  EXPECT_NEAR(value(-9, -8), -6 * -9 * sigmoid(1.702 * -9), 1e-9);
  EXPECT_TRUE(std::isnan(value(std::nanf(""), 1)));
  EXPECT_TRUE(std::isnan(value(1, std::nanf(""))));
}

TEST(GroupedGemm, WrongArgumentsAreNamed) {
  const auto text = [](const std::function<void(Product&)>& spoil) -> std::string {
    Product p(kAccumulator, ExpertActivation::swiglu);
    spoil(p);
    try {
      grouped_gemm(p.args);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(text([](Product&) {}), "");
  EXPECT_NE(text([](Product& p) { p.begins[0] = 1; }).find("begins: got 1 at index 0"),
            std::string::npos);
  EXPECT_NE(text([](Product& p) { p.begins[2] = 10; }).find("begins: got 10 at index 2"),
            std::string::npos);
  EXPECT_NE(text([](Product& p) { p.begins[4] = 121; }).find("begins: got 121 at index 4"),
            std::string::npos);
  EXPECT_NE(text([](Product& p) { p.args.experts = 0; }).find("experts: got 0"), std::string::npos);
  EXPECT_NE(text([](Product& p) { p.args.weight.rows /= 2; }).find("weight: got [288, 40]"),
            std::string::npos);
  EXPECT_NE(text([](Product& p) { p.args.begins = nullptr; }).find("begins: got null"),
            std::string::npos);
  const std::string on_gpu = text([](Product& p) { p.args.device = Device::cuda; });
  EXPECT_TRUE(on_gpu.find("begins: got memory that is not on a GPU") != std::string::npos ||
              on_gpu.find("device: got cuda, expected cpu") != std::string::npos)
      << on_gpu;
  std::vector<std::int32_t> sources(Product::kRows, -1);
  EXPECT_NE(
      text([&](Product& p) { p.args.sources = sources.data(); }).find("sources: got -1 for row 0"),
      std::string::npos);
}

}  // namespace
}  // namespace tilelace
