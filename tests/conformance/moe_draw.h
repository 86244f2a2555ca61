// SPDX-License-Identifier: Apache-2.0
// Draws random layers of experts and routings, the same on every rank.
#pragma once
#include <cmath>
#include <iterator>
#include <random>

#include "conformance/moe_reference.h"
#include "night.h"

namespace tilelace::test {

/// Draws cases one after the other. The seed determines the cases.
class MoeDraw {
 public:
  explicit MoeDraw(std::uint32_t seed)
      : random_(seed + static_cast<std::uint32_t>(night_seed())), seed_(seed) {}

  MoeCase next(int ranks) {
    MoeCase c;
    MoeLayer& l = c.layer;
    l.dtype = kDTypes[below(std::size(kDTypes))].type;
    l.hidden = 8 * (1 + below(9)), l.inner = 8 * (1 + below(11));
    l.experts = 1 + below(9), l.top_k = 1 + below(4);
    l.activation = kExpertActivations[below(kExpertActivations.size())].activation;
    l.replicated = below(2) == 0, l.weight_on_input = below(4) == 0;
    c.biased = below(2) == 0, c.scatters = below(2) == 0;
    c.add = static_cast<MoeCase::Add>(below(c.scatters ? 3 : 2));
    c.type = below(2) == 0 ? Item::i32 : Item::i64;
    c.seed = seed_ * 1000 + static_cast<std::uint32_t>(below(1000));
    const bool cut = below(2) == 0 && l.experts >= ranks;  // each expert is on one rank
    for (int r = 0; r < ranks; ++r) {
      c.rows.push_back(below(4) == 0 ? 0 : below(12));
      l.m += c.rows.back();
      const std::int64_t first = r * l.experts / ranks, end = (r + 1) * l.experts / ranks;
      c.parts.push_back(cut ? MoeCase::Part{first, end - first} : MoeCase::Part{0, l.experts});
    }
    route(c);
    return c;
  }

  /// Draws new ids and weights for the same tokens: a routing of one of five kinds.
  void route(MoeCase& c) {
    const MoeLayer& l = c.layer;
    const auto kind = below(5);
    const std::int64_t hot = below(l.experts);
    c.ids.assign(static_cast<std::size_t>(l.m * l.top_k), -1);
    c.weights.assign(c.ids.size(), 0.0F);
    for (std::size_t i = 0; i < c.ids.size(); ++i) {
      if (kind == 0) continue;                        // kind 0: no token has an expert
      c.ids[i] = kind == 1 ? hot : below(l.experts);  // kind 1: one expert for all
      if (kind == 2 && i % static_cast<std::size_t>(l.top_k) > 0) c.ids[i] = c.ids[i - 1];
      if (kind == 3 && below(10) < 3) c.ids[i] = -1;
      c.weights[i] = c.ids[i] < 0 ? std::nanf("") : 0.03125F * static_cast<float>(1 + below(32));
      if (c.integers) c.weights[i] = c.ids[i] < 0 ? std::nanf("") : 1.0F;
    }
  }

  std::int64_t below(std::size_t n) { return static_cast<std::int64_t>(random_() % n); }
  std::int64_t below(std::int64_t n) { return below(static_cast<std::size_t>(n)); }
  std::int64_t below(int n) { return below(static_cast<std::size_t>(n)); }

 private:
  std::mt19937 random_;
  std::uint32_t seed_;
};

}  // namespace tilelace::test
