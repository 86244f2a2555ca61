// SPDX-License-Identifier: Apache-2.0
// Computes the bits of all_reduce_norm's results, as tilelace/all_reduce_norm.h defines them.
#pragma once
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/half.h"
#include "tilelace/all_reduce_norm.h"

namespace tilelace::test {

/// The parameters of one call, equal on all ranks.
struct NormCase {
  Item item = Item::bf16;
  NormQuant quant = NormQuant::none;
  std::int64_t m = 1, n = 8;
  bool residual = true, in_place = false, out = true, normed = true;
  float eps = 1e-5F;
  std::uint64_t seed = 0;
  CollectiveOptions options;

  [[nodiscard]] std::string text() const {
    return fmt::format("{} quant {} m {} n {}{}{}{}{} eps {} seed {} lines {} workers {} chunk {}",
                       row_of(item).name, static_cast<int>(quant), m, n,
                       residual ? " residual" : "", in_place ? " in place" : "", out ? " out" : "",
                       normed ? " normed" : "", eps, seed,
                       options.lines ? static_cast<int>(*options.lines) : -1,
                       options.workers.value_or(0), options.chunk.value_or(0));
  }
};

/// Addresses of a rank's tensors.
struct NormPlaces {
  const void *x = nullptr, *residual = nullptr, *weight = nullptr;
  void *out = nullptr, *normed = nullptr, *quantised = nullptr, *scales = nullptr;
};
/// The arguments of the call. Tensors that the call does not have are null.
inline AllReduceNormArgs norm_args(const NormCase& c, const NormPlaces& at) {
  AllReduceNormArgs args;
  args.x = at.x;
  args.residual = c.residual ? at.residual : nullptr;
  args.weight = at.weight;
  args.eps = c.eps;
  args.out = c.out ? at.out : nullptr;
  args.normed = c.normed ? at.normed : nullptr;
  args.quant = c.quant;
  args.quantised = c.quant == NormQuant::none ? nullptr : at.quantised;
  args.scales = c.quant == NormQuant::none ? nullptr : static_cast<float*>(at.scales);
  args.item = c.item, args.m = c.m, args.n = c.n;
  return args;
}

using Halves = std::vector<std::uint16_t>;

inline float float_of(Item item, std::uint16_t word) {
  return item == Item::bf16 ? bf16_to_float(word) : fp16_to_float(word);
}
inline std::uint16_t half_of(Item item, float f) {
  return item == Item::bf16 ? float_to_bf16(f) : float_to_fp16(f);
}

/// Elements of a tensor. `which` < ranks: x of rank `which`; ranks: residual; ranks + 1: weight.
inline Halves norm_input(const NormCase& c, int which, std::int64_t count) {
  std::mt19937 random(static_cast<std::uint32_t>(c.seed * 131 + static_cast<unsigned>(which)));
  Halves words(static_cast<std::size_t>(count));
  for (std::uint16_t& w : words)
    w = half_of(c.item, static_cast<float>(static_cast<int>(random() % 20011U) - 10005) / 3001.0F);
  return words;
}

struct NormResults {
  Halves out, normed;
  std::vector<std::uint8_t> quantised;
  std::vector<float> scales;
};

inline float value_of_e4m3(unsigned bits) {
  const auto exponent = static_cast<int>(bits >> 3U & 15U), fraction = static_cast<int>(bits & 7U);
  const double value =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return static_cast<float>((bits & 0x80U) != 0 ? -value : value);
}

/// Rounds to the nearest e4m3 value, and rounds ties to even.
inline std::uint8_t nearest_e4m3(float f) {
  unsigned best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (unsigned bits = 0; bits < 0x7f; ++bits) {
    const double off = std::fabs(std::fabs(static_cast<double>(f)) - value_of_e4m3(bits));
    if (off < least || (off == least && bits % 2 == 0)) best = bits, least = off;
  }
  return static_cast<std::uint8_t>(best | (std::signbit(f) ? 0x80U : 0U));
}

/// Forces a value through memory, so that the compiler cannot combine two operations.
inline float stored(float f) {
  volatile float v = f;
  return v;
}

/// The sum of squares of `size` units of 8 elements, from unit `begin` on; size is a power of two.
inline float sum_of_squares(const std::vector<float>& h, std::size_t begin, std::size_t size) {
  if (begin * 8 >= h.size()) return 0;
  if (size > 1)
    return stored(sum_of_squares(h, begin, size / 2) +
                  sum_of_squares(h, begin + size / 2, size / 2));
  float sum = 0;
  for (std::size_t i = 8 * begin; i < 8 * begin + 8; ++i) sum = stored(sum + stored(h[i] * h[i]));
  return sum;
}

inline float scale_of(const std::vector<float>& v, std::size_t begin, std::size_t end) {
  float most = 0;
  for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::fabs(v[i]));
  return std::max(stored(most / 448.0F), std::ldexp(1.0F, -126));
}

constexpr float kGivenScale = 0.013F;

inline void norm_row(const NormCase& c, const std::vector<float>& h, const Halves& weight,
                     NormResults& to) {
  const float mean = stored(sum_of_squares(h, 0, 2048) * stored(1.0F / static_cast<float>(c.n)));
  const double wide = stored(mean + c.eps);
  const auto root = static_cast<float>(1.0 / std::sqrt(wide));
  std::vector<float> v;
  for (std::size_t i = 0; i < h.size(); ++i) {
    v.push_back(stored(stored(h[i] * root) * float_of(c.item, weight[i])));
    to.out.push_back(half_of(c.item, h[i]));
    to.normed.push_back(half_of(c.item, v.back()));
  }
  if (c.quant == NormQuant::none) return;
  const std::size_t part = c.quant == NormQuant::block ? 128 : v.size();
  for (std::size_t begin = 0; begin < v.size(); begin += part) {
    const float scale =
        c.quant == NormQuant::given ? kGivenScale : scale_of(v, begin, begin + part);
    if (c.quant != NormQuant::given) to.scales.push_back(scale);
    const float inverse = stored(1.0F / scale);
    for (std::size_t i = begin; i < begin + part; ++i)
      to.quantised.push_back(nearest_e4m3(stored(v[i] * inverse)));
  }
}

inline NormResults norm_results(const NormCase& c, int ranks) {
  std::vector<Halves> x;
  for (int r = 0; r < ranks; ++r) x.push_back(norm_input(c, r, c.m * c.n));
  const Halves residual = norm_input(c, ranks, c.m * c.n), weight = norm_input(c, ranks + 1, c.n);
  NormResults results;
  if (c.quant == NormQuant::given) results.scales = {kGivenScale};
  for (std::int64_t row = 0; row < c.m; ++row) {
    std::vector<float> h;
    for (auto i = static_cast<std::size_t>(row * c.n); h.size() < static_cast<std::size_t>(c.n);
         ++i) {
      float sum = float_of(c.item, x[0][i]);
      for (std::size_t r = 1; r < x.size(); ++r) sum = stored(sum + float_of(c.item, x[r][i]));
      sum = float_of(c.item, half_of(c.item, sum));
      if (c.residual)
        sum = float_of(c.item, half_of(c.item, stored(sum + float_of(c.item, residual[i]))));
      h.push_back(sum);
    }
    norm_row(c, h, weight, results);
  }
  return results;
}

/// Draws random calls. Equal seeds give equal calls on all ranks.
class NormDraw {
 public:
  explicit NormDraw(std::uint64_t seed, std::int64_t most) : random_(seed), most_(most) {}

  NormCase next(bool gpu) {
    static constexpr std::int64_t kCols[] = {8, 24, 128, 256, 264, 1024, 4096, 4224, 8192, 16384};
    static constexpr std::int64_t kRows[] = {0, 1, 2, 3, 7, 33, 64, 150};
    NormCase c;
    c.item = below(2) == 0 ? Item::bf16 : Item::fp16;
    c.quant = static_cast<NormQuant>(below(4));
    c.n = kCols[below(std::size(kCols))];
    if (c.quant == NormQuant::block) c.n = (c.n + 127) / 128 * 128;
    c.m = std::min(kRows[below(std::size(kRows))], most_ / c.n);
    c.residual = below(4) != 0;
    c.out = below(4) != 0;
    c.in_place = c.residual && c.out && below(2) == 0;
    c.normed = c.quant == NormQuant::none || below(2) == 0;
    c.seed = random_() % 100000;
    if (gpu && below(3) == 0) c.options.lines = false;
    if (gpu && below(3) == 0 && c.m * c.n <= 60000) c.options.lines = true;
    if (below(3) == 0) c.options.workers = 1 + static_cast<int>(below(4));
    if (c.options.workers && c.options.lines == true && c.m > 8) c.options.lines.reset();
    if (below(3) == 0) c.options.chunk = 16 + static_cast<std::int64_t>(below(60000));
    return c;
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  std::mt19937_64 random_;
  std::int64_t most_;
};

}  // namespace tilelace::test
