// SPDX-License-Identifier: Apache-2.0
#include "moe/layer.h"

#include <fmt/format.h>

#include "core/half.h"

namespace tilelace::gpu_test {
namespace {

using Bits = std::vector<std::uint16_t>;

std::int64_t up_columns(const LayerShape& s) {
  return s.gating == cuda::Gating::one ? s.inner : 2 * s.inner;
}
std::size_t bytes_of(std::int64_t elements) { return static_cast<std::size_t>(elements) * 2; }

std::uint16_t rounded(float f, DType type) {
  return type == DType::bf16 ? HostBf16::from_float(f) : HostFp16::from_float(f);
}
double value_of(std::uint16_t bits, DType type) {
  return static_cast<double>(type == DType::bf16 ? HostBf16::to_float(bits)
                                                 : HostFp16::to_float(bits));
}
std::vector<float> floats(const Bits& bits, DType type) {
  std::vector<float> f(bits.size());
  for (std::size_t i = 0; i < f.size(); ++i) f[i] = static_cast<float>(value_of(bits[i], type));
  return f;
}

}  // namespace

/// A product that has run, with its operands on the host.
struct Layer::Product {
  const char* name;
  cuda::GroupedGemm call;
  const Buffer &x, &out;
  std::vector<float> weight, bias, scale;

  [[nodiscard]] std::int64_t columns() const {
    return call.gating == cuda::Gating::one ? call.n : call.n / 2;
  }
  /// One column of the weight with a row, and its bias.
  [[nodiscard]] test::Expected sum(const float* row, std::int64_t expert, std::int64_t column,
                                   std::int64_t skip) const {
    const float* const w = weight.data() + (expert * call.n + column) * call.k;
    double sum = 0;
    double magnitude = 0;
    for (std::int64_t i = skip; i < call.k; ++i) {
      const double term = static_cast<double>(row[i]) * static_cast<double>(w[i]);
      sum += term;
      magnitude += std::fabs(term);
    }
    const double b =
        bias.empty()
            ? 0
            : static_cast<double>(bias[static_cast<std::size_t>(expert * call.n + column)]);
    return {sum + b, 0x1p-24 * 16 * (magnitude + std::fabs(b))};
  }
  [[nodiscard]] test::Expected expect(const float* row, std::int64_t expert, std::int64_t column,
                                      const test::Rule& rule, std::int64_t skip) const {
    if (call.gating == cuda::Gating::one)
      return expect_activated(call.activation, rule, sum(row, expert, column, skip));
    const bool clamped = call.gating == cuda::Gating::clamped;
    test::Expected gate = sum(row, expert, clamped ? 2 * column : column, skip);
    test::Expected up = sum(row, expert, clamped ? 2 * column + 1 : column + columns(), skip);
    if (!clamped) return expect_product(expect_activated(Activation::silu, rule, gate), up);
    gate.value = std::min(gate.value, 7.0);
    up.value = std::clamp(up.value, -7.0, 7.0) + 1;
    up.before += 0x1p-24 * std::fabs(up.value);
    // silu(a x) / a, where a itself is rounded.
    gate.value = gate.value / (1 + std::exp(-1.702 * gate.value));
    gate.before = 1.13 * gate.before + 0x1p-24 * 24 * std::fabs(gate.value);
    return expect_product(gate, up);
  }
};

Layer::Layer(const LayerShape& s, std::uint64_t seed)
    : s_(s),
      ids_(pairs() * 8),
      map_(static_cast<std::size_t>(s.map.words()) * 4),
      x_(bytes_of(s.map.m * s.hidden)),
      rows_(bytes_of(s.map.pairs() * s.hidden)),
      w_up_(bytes_of(s.map.here * up_columns(s) * s.hidden)),
      b_up_(bytes_of(s.map.here * up_columns(s))),
      act_(bytes_of(s.map.pairs() * s.inner)),
      w_down_(bytes_of(s.map.here * s.hidden * s.inner)),
      b_down_(bytes_of(s.map.here * s.hidden)),
      scale_(pairs() * 4),
      down_(bytes_of(s.map.pairs() * s.hidden)),
      add_(bytes_of(s.map.m * s.hidden)),
      out_(bytes_of(s.map.m * s.hidden)) {
  const auto fill = [&](const Buffer& b, std::int64_t count, std::uint64_t salt, float size) {
    b.upload(numbers(static_cast<std::size_t>(count), seed * 16 + salt, size));
  };
  fill(x_, s.map.m * s.hidden, 1, 1);
  fill(w_up_, s.map.here * up_columns(s) * s.hidden, 2, 0.125F);
  fill(b_up_, s.map.here * up_columns(s), 3, 1);
  fill(w_down_, s.map.here * s.hidden * s.inner, 4, 0.125F);
  fill(b_down_, s.map.here * s.hidden, 5, 1);
  fill(add_, s.map.m * s.hidden, 6, 1);
  std::vector<float> scale(pairs());
  for (std::size_t i = 0; i < scale.size(); ++i)
    scale[i] = s.exact ? static_cast<float>(1 << (test::hash(seed + i) % 3))
                       : 0.5F + 0.25F * test::normal_value(seed, i);
  scale_.upload(scale);
}

std::vector<std::uint16_t> Layer::numbers(std::size_t count, std::uint64_t seed, float size) const {
  Bits bits(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float exact = static_cast<float>(test::hash(seed * 977 + i) % 3) - 1;
    bits[i] = rounded(s_.exact ? exact : size * test::normal_value(seed, i), s_.dtype);
  }
  return bits;
}

void Layer::route(const Ids& ids) {
  ids_host_ = ids;
  if (s_.wide) {
    ids_.upload(ids);
    return;
  }
  ids_.upload(std::vector<std::int32_t>(ids.begin(), ids.end()));
}

cuda::GroupedGemm Layer::up() const {
  cuda::GroupedGemm g;
  g.x = rows_.data();
  g.weight = w_up_.data();
  g.bias = s_.bias ? b_up_.data() : nullptr;
  g.out = act_.data();
  g.begins = map_.as<std::int32_t>() + schedule::MoeMap::begins();
  g.rows = s_.map.pairs();
  g.n = up_columns(s_);
  g.k = s_.hidden;
  g.experts = static_cast<int>(s_.map.here);
  g.dtype = s_.dtype;
  g.gating = s_.gating;
  g.activation = s_.activation;
  return g;
}

cuda::GroupedGemm Layer::down() const {
  cuda::GroupedGemm g = up();
  g.x = act_.data();
  g.weight = w_down_.data();
  g.bias = s_.bias ? b_down_.data() : nullptr;
  g.out = down_.data();
  g.scale = s_.scaled ? scale_.as<float>() : nullptr;
  g.sources = map_.as<std::int32_t>() + s_.map.source_of();
  g.n = s_.hidden;
  g.k = s_.inner;
  g.gating = cuda::Gating::one;
  g.activation = Activation::none;
  return g;
}

void Layer::run(cudaStream_t stream) const {
  cuda::make_map({s_.map, ids_.data(), s_.wide, map_.as<std::int32_t>()}, stream);
  cuda::PermuteRows permute{s_.map,  map_.as<std::int32_t>(), x_.data(), rows_.data(), s_.hidden,
                            s_.dtype};
  if (s_.weighted) permute.weights = scale_.as<float>();
  cuda::permute_rows(permute, stream);
  cuda::grouped_gemm(up(), s_.up, stream);
  cuda::grouped_gemm(down(), s_.down, stream);
  cuda::SumSlots sum{
      s_.map, map_.as<std::int32_t>(), down_.data(), nullptr, out_.data(), s_.hidden, s_.dtype};
  if (s_.added != Added::none) sum.add = add_.data();
  sum.add_first = add_first();
  sum.add_rows = add_rows();
  cuda::sum_slots(sum, stream);
}

void Layer::poison_results() const {
  for (const Buffer* b : {&map_, &rows_, &act_, &down_, &out_}) b->poison();
}

std::vector<std::uint16_t> Layer::result() const {
  return out_.download<std::uint16_t>(static_cast<std::size_t>(s_.map.m * s_.hidden));
}

std::string Layer::trouble(int drop) const {
  std::vector<std::int32_t> words;
  if (auto t = map_trouble(words); !t.empty()) return "map: " + t;
  if (auto t = rows_trouble(words); !t.empty()) return "permute: " + t;
  const auto host = [&](const Buffer& b, std::int64_t count) {
    return floats(b.download<std::uint16_t>(static_cast<std::size_t>(count)), s_.dtype);
  };
  const auto bias = [&](const Buffer& b, std::int64_t count) {
    return s_.bias ? host(b, count) : std::vector<float>{};
  };
  const Product first{"up",
                      up(),
                      rows_,
                      act_,
                      host(w_up_, s_.map.here * up_columns(s_) * s_.hidden),
                      bias(b_up_, s_.map.here * up_columns(s_)),
                      {}};
  if (auto t = product_trouble(first, words, drop); !t.empty()) return "up: " + t;
  const Product second{"down",
                       down(),
                       act_,
                       down_,
                       host(w_down_, s_.map.here * s_.hidden * s_.inner),
                       bias(b_down_, s_.map.here * s_.hidden),
                       s_.scaled ? scale_.download<float>(pairs()) : std::vector<float>{}};
  if (auto t = product_trouble(second, words, 0); !t.empty()) return "down: " + t;
  if (auto t = sum_trouble(words); !t.empty()) return "sum: " + t;
  return {};
}

std::string Layer::map_trouble(std::vector<std::int32_t>& words) const {
  const auto count = static_cast<std::size_t>(s_.map.words());
  words = map_.download<std::int32_t>(count);
  std::vector<std::int32_t> expected(count, -1);  // the poison
  fill_moe_map(s_.map, ids_host_.data(), expected.data());
  if (!map_.untouched(count * 4)) return "written beyond the end";
  for (std::size_t i = 0; i < count; ++i)
    if (words[i] != expected[i])
      return fmt::format("word {} of {}: got {}, expected {}", i, count, words[i], expected[i]);
  return {};
}

std::string Layer::rows_trouble(const std::vector<std::int32_t>& words) const {
  const auto all = static_cast<std::size_t>(words[static_cast<std::size_t>(s_.map.here)]);
  const auto width = static_cast<std::size_t>(s_.hidden);
  const auto x = x_.download<std::uint16_t>(static_cast<std::size_t>(s_.map.m) * width);
  const auto got = rows_.download<std::uint16_t>(all * width);
  const auto weights = s_.weighted ? scale_.download<float>(pairs()) : std::vector<float>{};
  for (std::size_t r = 0; r < all; ++r) {
    const auto source =
        static_cast<std::size_t>(words[static_cast<std::size_t>(s_.map.source_of()) + r]);
    const auto token = source / static_cast<std::size_t>(s_.map.top_k);
    for (std::size_t c = 0; c < width; ++c) {
      const std::uint16_t bits = x[token * width + c];
      const std::uint16_t expected =
          s_.weighted
              ? rounded(static_cast<float>(value_of(bits, s_.dtype)) * weights[source], s_.dtype)
              : bits;
      if (got[r * width + c] != expected)
        return fmt::format("row {} column {} of token {}: got {:#x}, expected {:#x}", r, c, token,
                           got[r * width + c], expected);
    }
  }
  return rows_.untouched(all * width * 2) ? "" : "written beyond the rows that there are";
}

std::string Layer::product_trouble(const Product& p, const std::vector<std::int32_t>& words,
                                   int drop) const {
  const auto all = static_cast<std::size_t>(words[static_cast<std::size_t>(s_.map.here)]);
  const std::int64_t n = p.columns();
  const auto x =
      floats(p.x.download<std::uint16_t>(all * static_cast<std::size_t>(p.call.k)), s_.dtype);
  const Bits got = p.out.download<std::uint16_t>(all * static_cast<std::size_t>(n));
  test::Rule rule;
  rule.u = unit_roundoff(s_.dtype);
  rule.tiny = std::ldexp(1.0, tilelace::row_of(s_.dtype).underflow_exponent);
  rule.extra_roundings = 16;
  for (std::int64_t e = 0; e < s_.map.here; ++e)
    for (std::int64_t r = words[static_cast<std::size_t>(e)];
         r < words[static_cast<std::size_t>(e) + 1]; ++r)
      for (std::int64_t c = 0; c < n; ++c) {
        test::Expected y = p.expect(x.data() + r * p.call.k, e, c, rule, 8 * drop);
        if (!p.scale.empty()) {
          const auto source =
              static_cast<std::size_t>(words[static_cast<std::size_t>(s_.map.source_of() + r)]);
          y = expect_product(y, {static_cast<double>(p.scale[source]), 0});
        }
        const std::uint16_t bits = got[static_cast<std::size_t>(r * n + c)];
        const double value = value_of(bits, s_.dtype);
        const bool exact =
            s_.exact && p.call.gating == cuda::Gating::one && p.call.activation == Activation::none;
        const bool right = exact ? bits == rounded(static_cast<float>(y.value), s_.dtype) ||
                                       (value == 0 && y.value == 0)
                                 : std::fabs(value - y.value) <= bound_of(rule, y);
        if (!right)
          return fmt::format("expert {} row {} column {} of {}: got {}, expected {}", e, r, c, n,
                             value, y.value);
        if (!exact) worst_ = std::max(worst_, std::fabs(value - y.value) / bound_of(rule, y));
      }
  return p.out.untouched(all * static_cast<std::size_t>(n) * 2)
             ? ""
             : "written beyond the rows that there are";
}

std::string Layer::sum_trouble(const std::vector<std::int32_t>& words) const {
  const std::int64_t width = s_.hidden;
  const Bits got = result();
  const auto rows =
      floats(down_.download<std::uint16_t>(pairs() * static_cast<std::size_t>(width)), s_.dtype);
  const auto add =
      floats(add_.download<std::uint16_t>(static_cast<std::size_t>(s_.map.m * width)), s_.dtype);
  for (std::int64_t t = 0; t < s_.map.m; ++t)
    for (std::int64_t c = 0; c < width; ++c) {
      float sum = 0;
      for (std::int64_t s = 0; s < s_.map.top_k; ++s) {
        const auto row = words[static_cast<std::size_t>(s_.map.row_of() + t * s_.map.top_k + s)];
        if (row >= 0) sum += rows[static_cast<std::size_t>(row * width + c)];
      }
      const std::int64_t added = t - add_first();
      if (s_.added != Added::none && added >= 0 && added < add_rows())
        sum += add[static_cast<std::size_t>(added * width + c)];
      const std::uint16_t bits = got[static_cast<std::size_t>(t * width + c)];
      if (bits != rounded(sum, s_.dtype))
        return fmt::format("token {} column {}: got {:#x}, expected {:#x}", t, c, bits,
                           rounded(sum, s_.dtype));
    }
  return out_.untouched(static_cast<std::size_t>(s_.map.m * width) * 2) ? "" : "written beyond it";
}

}  // namespace tilelace::gpu_test
