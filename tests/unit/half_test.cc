// SPDX-License-Identifier: Apache-2.0
// bf16 and fp16: the scalar conversions by their definition, and the bulk ones against those.
#include "core/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "backend/cpu/gemm/convert.h"
#include "dtypes.h"

namespace tilelace {
namespace {

std::vector<float> awkward_floats() {
  std::vector<float> values;
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i)
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  // Every bf16 and fp16 value, their midpoints and the neighbours of these.
  for (std::uint32_t h = 0; h < 65536; ++h) {
    for (const std::uint32_t low : {0U, 0x7fffU, 0x8000U, 0x8001U})
      values.push_back(std::bit_cast<float>(h << 16 | low));
    const auto bits = std::bit_cast<std::uint32_t>(fp16_to_float(static_cast<std::uint16_t>(h)));
    for (const std::uint32_t low : {0U, 0xfffU, 0x1000U, 0x1001U})
      values.push_back(std::bit_cast<float>(bits | low));
  }
  return values;
}

// Nearest neighbour by definition: among `bits`, bits - 1 and bits + 1 none may be nearer, and in a
// tie the even one wins.
template <class ToFloat>
bool is_nearest_even(float f, std::uint16_t bits, ToFloat widen) {
  const double error = std::fabs(static_cast<double>(widen(bits)) - f);
  for (const int step : {-1, 1}) {
    const auto other = static_cast<std::uint16_t>(bits + step);
    if (((other ^ bits) & 0x8000U) != 0) continue;  // crossed zero
    const double neighbour = widen(other);
    if (!std::isfinite(neighbour)) continue;
    const double other_error = std::fabs(neighbour - f);
    if (other_error < error || (other_error == error && (bits & 1U) != 0)) return false;
  }
  return true;
}

TEST(Half, EveryValueSurvivesTheRoundTrip) {
  for (std::uint32_t h = 0; h < 65536; ++h) {
    const auto bits = static_cast<std::uint16_t>(h);
    if (std::isnan(bf16_to_float(bits)))
      EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(bf16_to_float(bits)))));
    else
      EXPECT_EQ(float_to_bf16(bf16_to_float(bits)), bits);
    if (std::isnan(fp16_to_float(bits)))
      EXPECT_TRUE(std::isnan(fp16_to_float(float_to_fp16(fp16_to_float(bits)))));
    else
      EXPECT_EQ(float_to_fp16(fp16_to_float(bits)), bits);
  }
}

TEST(Half, KnownValues) {
  EXPECT_EQ(fp16_to_float(0x0001), std::ldexp(1.0F, -24));
  EXPECT_EQ(fp16_to_float(0x03ff), std::ldexp(1023.0F, -24));
  EXPECT_EQ(fp16_to_float(0x7bff), 65504.0F);
  EXPECT_EQ(fp16_to_float(0xfc00), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(float_to_fp16(65519.0F), 0x7bff);
  EXPECT_EQ(float_to_fp16(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_fp16(std::ldexp(1.0F, -25)), 0);  // a tie, to even
  EXPECT_EQ(float_to_bf16(1.0F + 1.0F / 256), 0x3f80);
  EXPECT_EQ(float_to_bf16(1.0F + 3.0F / 256), 0x3f82);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(Half, RoundsToNearestEven) {
  int bad = 0;
  for (const float f : awkward_floats()) {
    if (std::isnan(f)) {
      bad += !std::isnan(bf16_to_float(float_to_bf16(f)));
      bad += !std::isnan(fp16_to_float(float_to_fp16(f)));
      continue;
    }
    const std::uint16_t b = float_to_bf16(f), h = float_to_fp16(f);
    if (std::isfinite(bf16_to_float(b))) bad += !is_nearest_even(f, b, bf16_to_float);
    if (std::isfinite(fp16_to_float(h)))
      bad += !is_nearest_even(f, h, fp16_to_float);
    else
      bad += std::fabs(f) < 65520.0F;
  }
  EXPECT_EQ(bad, 0);
}

TEST(Half, ElementsConvertAsTheirBitsDo) {
  static_assert(sizeof(Bf16) == 2 && sizeof(Fp16) == 2);
  static_assert(std::is_trivially_copyable_v<Bf16> && std::is_trivially_copyable_v<Fp16>);
  static_assert(!std::is_convertible_v<float, Bf16> && !std::is_convertible_v<float, Fp16>);
  static_assert(Bf16().bits == 0 && Fp16(1.0F).bits == 0x3c00 && Bf16(-2.0F) == -2.0F);
  int bad = 0;
  for (const float f : awkward_floats()) {
    bad += Bf16(f).bits != float_to_bf16(f) || Fp16(f).bits != float_to_fp16(f);
    const float wide[] = {Bf16(f), Fp16(f)};
    const float want[] = {bf16_to_float(Bf16(f).bits), fp16_to_float(Fp16(f).bits)};
    bad += std::memcmp(wide, want, sizeof wide) != 0;
  }
  EXPECT_EQ(bad, 0);
}

TEST(ElementTypes, HaveARowThatEachOfTheirNamesFinds) {
  for (std::size_t i = 0; i < std::size(kDTypes); ++i) {
    const DTypeRow& row = kDTypes[i];
    EXPECT_EQ(row.type, static_cast<DType>(i)) << row.name;
    EXPECT_EQ(&row_of(row.type), &row);
    EXPECT_TRUE(is_known(row.type));
    EXPECT_EQ(dtype_named(row.name), row.type);
    EXPECT_EQ(dtype_named(row.long_name, &DTypeRow::long_name), row.type);
    EXPECT_EQ(dtype_named(row.file_name, &DTypeRow::file_name), row.type);
    EXPECT_EQ(
        with_host_element(row.type, [](auto e) { return sizeof(typename decltype(e)::Word); }),
        size_of(row.type));
    // The next number after one is two roundoffs away.
    float one = 0, next = 0;
    store_element(&one, row.type, 0, 1.0F);
    store_element(&next, row.type, 0, static_cast<float>(1 + 2 * unit_roundoff(row.type)));
    EXPECT_EQ(load_element(&one, row.type, 0), 1.0F);
    EXPECT_GT(load_element(&next, row.type, 0), 1.0F) << row.name;
  }
}

TEST(ElementTypes, ThatNameNothingAreNoneOfOurs) {
  const auto nothing = static_cast<DType>(std::size(kDTypes));
  float value = 0;

  EXPECT_FALSE(is_known(nothing));
  EXPECT_EQ(name_of(nothing), "?");
  EXPECT_EQ(dtype_named("?"), std::nullopt);
  EXPECT_THROW(static_cast<void>(load_element(&value, nothing, 0)), Error);
}

class BulkConversion : public testing::TestWithParam<DType> {};

TEST_P(BulkConversion, AgreesWithTheScalarOne) {
  const DType dtype = GetParam();
  const std::vector<float> source = awkward_floats();
  std::vector<std::uint32_t> bulk(source.size()), scalar(source.size());
  cpu::from_float(source.data(), dtype, static_cast<std::int64_t>(source.size()), bulk.data());
  std::vector<float> back(source.size());
  cpu::to_float(bulk.data(), dtype, static_cast<std::int64_t>(source.size()), back.data());
  int bad = 0;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    store_element(scalar.data(), dtype, at, source[i]);
    const float want = load_element(scalar.data(), dtype, at);
    const float got = load_element(bulk.data(), dtype, at);
    const bool same = std::isnan(want)
                          ? std::isnan(got) && std::isnan(back[i])
                          : std::bit_cast<int>(want) == std::bit_cast<int>(got) &&
                                std::bit_cast<int>(want) == std::bit_cast<int>(back[i]);
    bad += !same;
  }
  EXPECT_EQ(bad, 0);
}

TEST_P(BulkConversion, WritesExactlyWhatWasAsked) {
  const DType dtype = GetParam();
  for (std::int64_t n = 0; n < 40; ++n) {
    std::vector<float> source(40, 1.5F), back(41, -7.0F);
    std::vector<float> bits(41, -7.0F);
    cpu::from_float(source.data(), dtype, n, bits.data());
    cpu::to_float(bits.data(), dtype, n, back.data());
    for (std::int64_t i = 0; i < 41; ++i)
      EXPECT_EQ(back[static_cast<std::size_t>(i)], i < n ? 1.5F : -7.0F);
    const float untouched = -7.0F;
    const char* guard = reinterpret_cast<const char*>(bits.data()) + n * size_of(dtype);
    if (n * size_of(dtype) % sizeof(untouched) == 0) {
      EXPECT_EQ(std::memcmp(guard, &untouched, sizeof(untouched)), 0) << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, BulkConversion, testing::ValuesIn(all_dtypes()),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace tilelace
