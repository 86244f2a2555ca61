// SPDX-License-Identifier: Apache-2.0
// Routings of tokens to experts: random ones and edge cases.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string_view>
#include <vector>

#include "schedule/moe_map.h"

namespace tilelace::gpu_test {

using Ids = std::vector<std::int64_t>;

enum class Routing : std::uint8_t { uniform, zipf, one_hot, none, holes, borders, wrong, doubled };
inline constexpr Routing kRoutings[] = {Routing::uniform, Routing::zipf,   Routing::one_hot,
                                        Routing::none,    Routing::holes,  Routing::borders,
                                        Routing::wrong,   Routing::doubled};

constexpr std::string_view name_of(Routing r) {
  switch (r) {
    case Routing::uniform: return "uniform";
    case Routing::zipf: return "zipf";
    case Routing::one_hot: return "one hot";
    case Routing::none: return "all -1";
    case Routing::holes: return "some -1";
    case Routing::borders: return "counts at borders";
    case Routing::wrong: return "ids out of range";
    case Routing::doubled: return "doubled ids";
  }
  return "?";
}

class Router {
 public:
  explicit Router(std::uint64_t seed) : rng_(seed) {}

  /// Draws ids [m, top_k]. With uniform and zipf the experts of a token differ.
  Ids draw(const schedule::MoeMap& s, Routing routing) {
    switch (routing) {
      case Routing::uniform: return distinct(s, std::vector<double>(experts_of(s), 1.0));
      case Routing::zipf: return distinct(s, zipf(s));
      case Routing::one_hot: {
        const auto hot = s.first + below(s.here);
        return each(s, [&] { return below(50) == 0 ? below(s.experts) : hot; });
      }
      case Routing::none: return Ids(pairs_of(s), -1);
      case Routing::holes: return each(s, [&] { return below(10) == 0 ? -1 : below(s.experts); });
      case Routing::borders: return borders(s);
      case Routing::wrong:
        return each(s, [&]() -> std::int64_t {
          const auto bad = {s.experts, std::int64_t{-2}, std::int64_t{1} << 30,
                            -(std::int64_t{1} << 30)};
          return below(20) == 0 ? *(bad.begin() + below(4)) : below(s.experts);
        });
      case Routing::doubled: {
        Ids ids = each(s, [&] { return below(s.experts); });
        for (std::size_t i = 0; i < ids.size(); ++i)
          ids[i] = ids[i / static_cast<std::size_t>(s.top_k) * static_cast<std::size_t>(s.top_k)];
        return ids;
      }
    }
    return {};
  }

 private:
  static std::size_t experts_of(const schedule::MoeMap& s) {
    return static_cast<std::size_t>(s.experts);
  }
  static std::size_t pairs_of(const schedule::MoeMap& s) {
    return static_cast<std::size_t>(s.pairs());
  }
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(end));
  }
  template <class Make>
  static Ids each(const schedule::MoeMap& s, const Make& make) {
    Ids ids(pairs_of(s));
    for (auto& id : ids) id = make();
    return ids;
  }
  /// Zipf weights of experts, in random order. With 128 experts, the largest is 3.5 times the mean.
  std::vector<double> zipf(const schedule::MoeMap& s) {
    std::vector<double> weights(experts_of(s));
    for (std::size_t e = 0; e < weights.size(); ++e)
      weights[e] = std::pow(static_cast<double>(e + 1), -0.35);
    std::shuffle(weights.begin(), weights.end(), rng_);
    return weights;
  }
  /// Draws top_k experts for each token, without repeats if there are enough experts.
  Ids distinct(const schedule::MoeMap& s, const std::vector<double>& weights) {
    std::discrete_distribution<std::int64_t> any(weights.begin(), weights.end());
    Ids ids(pairs_of(s));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto first =
          ids.begin() + static_cast<std::ptrdiff_t>(i / static_cast<std::size_t>(s.top_k) *
                                                    static_cast<std::size_t>(s.top_k));
      const auto here = ids.begin() + static_cast<std::ptrdiff_t>(i);
      do ids[i] = any(rng_);
      while (s.top_k <= s.experts && std::find(first, here, ids[i]) != here);
    }
    return ids;
  }
  /// Gives each expert a number of rows that is, or is next to, the size of a tile or instruction.
  Ids borders(const schedule::MoeMap& s) {
    Ids ids;
    const auto edges = {0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 191, 192, 193, 384, 385};
    for (std::int64_t e = 0; e < s.experts; ++e)
      for (std::int64_t n = *(edges.begin() + below(16)); n > 0; --n) ids.push_back(e);
    ids.resize(pairs_of(s), -1);
    std::shuffle(ids.begin(), ids.end(), rng_);
    return ids;
  }

  std::mt19937_64 rng_;
};

}  // namespace tilelace::gpu_test
