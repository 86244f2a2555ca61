// SPDX-License-Identifier: Apache-2.0
#include "model/random.h"

#include "core/half.h"

namespace tilelace::model {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;

/// SplitMix64's finaliser: a counter in, 64 independent bits out.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// The sum of the four 16-bit parts less its mean: exact in a float, deviation kDeviation.
inline float centred_sum(std::uint64_t bits) {
  const auto sum = static_cast<std::int32_t>((bits & 0xffffU) + ((bits >> 16) & 0xffffU) +
                                             ((bits >> 32) & 0xffffU) + (bits >> 48));
  return static_cast<float>(sum - 2 * 0xffff);
}
constexpr float kDeviation = 37837.227F;  // sqrt(4 * (65536^2 - 1) / 12)

template <class Store>
void fill(const TensorView& view, std::uint64_t key, std::int64_t row0, std::int64_t col0,
          float scale, Store store) {
  for (std::int64_t i = 0; i < view.rows; ++i) {
    const std::uint64_t row = mix(key + kGolden * static_cast<std::uint64_t>(row0 + i + 1));
    for (std::int64_t j = 0; j < view.cols; ++j) {
      const std::uint64_t bits = mix(row + kGolden * static_cast<std::uint64_t>(col0 + j + 1));
      store(i * view.stride + j, centred_sum(bits) * scale);
    }
  }
}

}  // namespace

std::uint64_t random_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t key = mix(seed + kGolden);
  for (const char c : name) key = mix(key ^ static_cast<unsigned char>(c)) + kGolden;
  return key;
}

void fill_random(const TensorView& view, std::uint64_t key, std::int64_t row0, std::int64_t col0,
                 float scale) {
  const float unit = scale / kDeviation;
  with_host_element(view.dtype, [&](auto element) {
    using Element = decltype(element);
    auto* out = static_cast<typename Element::Word*>(view.data);
    fill(view, key, row0, col0, unit,
         [out](std::int64_t at, float v) { out[at] = Element::from_float(v); });
  });
}

}  // namespace tilelace::model
