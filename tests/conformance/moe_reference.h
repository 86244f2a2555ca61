// SPDX-License-Identifier: Apache-2.0
// A reference for mixtures of experts: the data of all ranks, the results in fp64, and a bound on
// the error of each element. It uses the routing itself, without a map of rows.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/gemm/expert_bound.h"
#include "core/half.h"
#include "tilelace/moe.h"

namespace tilelace::test {

using cpu::activated;
using cpu::added;
using cpu::dot;
using cpu::rounded;
using cpu::times;
using cpu::Within;

/// A layer on all ranks, with a routing for all tokens.
struct MoeCase {
  struct Part {
    std::int64_t first = 0, here = 1;
  };

  MoeLayer layer;           ///< common to all ranks, except `first` and `here`
  std::vector<Part> parts;  ///< the experts of each rank
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> ids;
  std::vector<float> weights;
  Item type = Item::i32;
  bool biased = false, scatters = true;
  enum class Add { none, all, own } add = Add::none;
  bool integers = false;
  float filled = 1;  ///< share of elements that are drawn at random; all other elements are 0
  std::uint32_t seed = 0;

  [[nodiscard]] int ranks() const { return static_cast<int>(parts.size()); }
  [[nodiscard]] std::int64_t m() const { return layer.m; }
  [[nodiscard]] MoeLayer on(int rank) const {
    MoeLayer l = layer;
    l.first = parts[static_cast<std::size_t>(rank)].first;
    l.here = parts[static_cast<std::size_t>(rank)].here;
    return l;
  }
  [[nodiscard]] std::int64_t begin(int rank) const {
    std::int64_t sum = 0;
    for (int r = 0; r < rank; ++r) sum += rows[static_cast<std::size_t>(r)];
    return sum;
  }
  [[nodiscard]] std::int64_t own(int rank) const { return rows[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::int64_t width() const {
    return (row_of(layer.activation).gated ? 2 : 1) * layer.inner;
  }

  /// Elements of tensor number `name` of a rank. They are exact in the layer's type.
  [[nodiscard]] std::vector<float> values(int name, int rank, std::int64_t count,
                                          float scale = 1) const {
    std::mt19937 random(seed * 977U + static_cast<std::uint32_t>(name * 31 + rank));
    std::normal_distribution<float> normal;
    std::vector<float> all(static_cast<std::size_t>(count));
    std::uniform_real_distribution<float> share;
    for (auto& v : all) {
      if (filled < 1 && share(random) >= filled) continue;
      float raw = integers ? static_cast<float>(static_cast<int>(random() % 3) - 1)
                           : normal(random) * scale;
      std::byte word[8];
      store_element(word, layer.dtype, 0, raw);
      v = load_element(word, layer.dtype, 0);
    }
    return all;
  }
  [[nodiscard]] std::vector<float> x() const { return values(0, 0, m() * layer.hidden); }
  [[nodiscard]] std::vector<float> first_weight(int r) const {
    return values(1, r, on(r).here * width() * layer.hidden,
                  1 / std::sqrt(static_cast<float>(layer.hidden)));
  }
  [[nodiscard]] std::vector<float> second_weight(int r) const {
    return values(2, r, on(r).here * layer.hidden * layer.inner,
                  1 / std::sqrt(static_cast<float>(layer.inner)));
  }
  [[nodiscard]] std::vector<float> first_bias(int r) const {
    return values(3, r, biased ? on(r).here * width() : 0);
  }
  [[nodiscard]] std::vector<float> second_bias(int r) const {
    return values(4, r, biased ? on(r).here * layer.hidden : 0);
  }
  [[nodiscard]] std::vector<float> terms(int r) const {
    const std::int64_t tokens = add == Add::none ? 0 : add == Add::all ? m() : own(r);
    return values(5, r, tokens * layer.hidden);
  }

  /// The (token, slot) pairs that go to a rank's experts, ordered by expert and then by pair.
  [[nodiscard]] std::vector<std::size_t> pairs(int rank) const {
    const MoeLayer l = on(rank);
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (ids[i] >= l.first && ids[i] < l.first + l.here) kept.push_back(i);
    std::stable_sort(kept.begin(), kept.end(),
                     [&](std::size_t a, std::size_t b) { return ids[a] < ids[b]; });
    return kept;
  }
  [[nodiscard]] std::string text() const {
    return fmt::format(
        "{} ranks, {}, m {}, hidden {}, inner {}, experts {}, top_k {}, {}{}{}{}{}, add {}, seed "
        "{}",
        ranks(), name_of(layer.dtype), m(), layer.hidden, layer.inner, layer.experts, layer.top_k,
        row_of(layer.activation).name, layer.replicated ? ", replicated" : "",
        layer.weight_on_input ? ", weight_on_input" : "", biased ? ", biased" : "",
        scatters ? ", scatters" : "", static_cast<int>(add), seed);
  }
};

/// The first half's results on a rank, in the order of `pairs`.
inline std::vector<Within> first_half(const MoeCase& c, int rank) {
  const MoeLayer l = c.on(rank);
  const auto x = c.x(), w = c.first_weight(rank), bias = c.first_bias(rank);
  std::vector<Within> out;
  for (const std::size_t pair : c.pairs(rank)) {
    const auto token = static_cast<std::int64_t>(pair) / l.top_k;
    const std::int64_t expert = c.ids[pair] - l.first;
    std::vector<float> row(x.begin() + token * l.hidden, x.begin() + (token + 1) * l.hidden);
    for (auto& v : row) {  // The implementation rounds v in the same way, so v has no error.
      if (!l.weight_on_input) break;
      std::byte word[8];
      store_element(word, l.dtype, 0, v * c.weights[pair]);
      v = load_element(word, l.dtype, 0);
    }
    const auto product = [&](std::int64_t n) {
      const auto at = static_cast<std::size_t>(expert * c.width() + n);
      return dot(row.data(), w.data() + at * static_cast<std::size_t>(l.hidden), l.hidden,
                 c.biased ? bias[at] : 0);
    };
    const bool gated = row_of(l.activation).gated;
    const bool mixed = l.activation == ExpertActivation::swiglu_clamped;
    for (std::int64_t n = 0; n < l.inner; ++n)
      out.push_back(rounded(activated(l.activation, product(mixed ? 2 * n : n),
                                      gated ? product(mixed ? 2 * n + 1 : n + l.inner) : Within{}),
                            l.dtype));
  }
  return out;
}

/// The second half's result [m, hidden], the sum over all ranks. `acts`: the results of each rank's
/// first half, in the order of `pairs`.
inline std::vector<Within> second_half(const MoeCase& c,
                                       const std::vector<std::vector<float>>& acts) {
  const std::int64_t hidden = c.layer.hidden, inner = c.layer.inner;
  const auto size = static_cast<std::size_t>(c.m() * hidden);
  std::vector<std::vector<Within>> partials(size);
  for (int rank = 0; rank < c.ranks(); ++rank) {
    const MoeLayer l = c.on(rank);
    const auto w = c.second_weight(rank), bias = c.second_bias(rank), terms = c.terms(rank);
    const auto& act = acts[static_cast<std::size_t>(rank)];
    const auto pairs = c.pairs(rank);
    std::vector<std::vector<std::size_t>> rows(static_cast<std::size_t>(c.m()));
    for (std::size_t r = 0; r < pairs.size(); ++r)
      rows[pairs[r] / static_cast<std::size_t>(l.top_k)].push_back(r);
    const std::int64_t first = c.add == MoeCase::Add::own ? c.begin(rank) : 0;
    for (std::int64_t token = 0; token < c.m(); ++token) {
      auto& mine = rows[static_cast<std::size_t>(token)];
      std::sort(mine.begin(), mine.end(),
                [&](std::size_t a, std::size_t b) { return pairs[a] < pairs[b]; });
      const std::int64_t term = (token - first) * hidden;
      const bool adds = term >= 0 && term < static_cast<std::int64_t>(terms.size());
      for (std::int64_t n = 0; n < hidden; ++n) {
        std::vector<Within> slots;
        for (const std::size_t r : mine) {
          const auto at = static_cast<std::size_t>((c.ids[pairs[r]] - l.first) * hidden + n);
          const Within y =
              dot(act.data() + r * static_cast<std::size_t>(inner),
                  w.data() + at * static_cast<std::size_t>(inner), inner, c.biased ? bias[at] : 0);
          slots.push_back(rounded(l.weight_on_input ? y : times(y, c.weights[pairs[r]]), l.dtype));
        }
        if (adds) slots.push_back({terms[static_cast<std::size_t>(term + n)], 0});
        partials[static_cast<std::size_t>(token * hidden + n)].push_back(
            rounded(added(slots), l.dtype));
      }
    }
  }
  std::vector<Within> sums;
  sums.reserve(size);
  for (const auto& p : partials) sums.push_back(rounded(added(p), c.layer.dtype));
  return sums;
}

/// Describes the first element outside its bound; "" if there is none. `exact`: all bounds are 0.
inline std::string difference(const std::vector<Within>& want, const std::vector<float>& got,
                              bool exact) {
  if (want.size() > got.size()) return fmt::format("{} elements of {}", got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double off = std::fabs(got[i] - want[i].value);
    if (!(off <= (exact ? 0 : want[i].off)))
      return fmt::format("element {}: got {}, expected {} within {}", i, got[i], want[i].value,
                         exact ? 0 : want[i].off);
  }
  return "";
}

}  // namespace tilelace::test
