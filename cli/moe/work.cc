// SPDX-License-Identifier: Apache-2.0
#include "moe/work.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "core/check.h"
#include "sizes.h"

namespace tilelace::cli {
namespace {

constexpr RoutingKind kRoutings[] = {RoutingKind::uniform, RoutingKind::zipf, RoutingKind::hot};

}  // namespace

std::string_view name_of(RoutingKind kind) {
  switch (kind) {
    case RoutingKind::uniform: return "uniform";
    case RoutingKind::zipf: return "zipf";
    case RoutingKind::hot: return "hot";
  }
  return "?";
}

std::vector<RoutingKind> parse_routings(std::string_view text) {
  std::vector<RoutingKind> all;
  for (const std::string& part : split_list("--routing", text)) {
    const auto* const kind =
        std::ranges::find(kRoutings, part, [](RoutingKind k) { return name_of(k); });
    require(kind != std::end(kRoutings), "--routing: got \"{}\", expected uniform, zipf or hot",
            part);
    all.push_back(*kind);
  }
  return all;
}

bool are_moe(std::string_view ops) {
  const auto parts = split_list("bench: op", ops);
  const auto count = std::ranges::count_if(
      parts, [](const std::string& part) { return part == "moe_rs" || part == "moe_ar"; });
  require(count == 0 || count == std::ssize(parts),
          "bench: {} has mixtures of experts and other ops: time them in two calls", ops);
  return count > 0;
}

Routed make_routing(RoutingKind kind, const MoeLayer& l, std::int64_t m) {
  std::mt19937 random(static_cast<std::uint32_t>(m) * 3U + static_cast<std::uint32_t>(kind));
  std::vector<double> shares(static_cast<std::size_t>(l.experts), 1);
  for (std::size_t e = 0; e < shares.size() && kind == RoutingKind::zipf; ++e)
    shares[e] = 1 / (static_cast<double>(e) + 8);
  std::discrete_distribution<std::int32_t> draw(shares.begin(), shares.end());
  std::uniform_real_distribution<float> size(0.1F, 1);
  Routed r;
  for (std::int64_t token = 0; token < m; ++token) {
    const std::size_t first = r.ids.size();
    float sum = 0;
    while (std::ssize(r.ids) - static_cast<std::int64_t>(first) < l.top_k) {
      const bool hot = kind == RoutingKind::hot && r.ids.size() == first;
      const std::int32_t id = hot ? 0 : draw(random);
      const auto begin = r.ids.begin() + static_cast<std::ptrdiff_t>(first);
      if (std::find(begin, r.ids.end(), id) != r.ids.end()) continue;
      r.ids.push_back(id);
      r.weights.push_back(size(random));
      sum += r.weights.back();
    }
    for (std::size_t i = first; i < r.weights.size(); ++i) r.weights[i] /= sum;
  }
  return r;
}

double imbalance(const Routed& r, const MoeLayer& l) {
  if (r.ids.empty()) return 1;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(l.experts));
  for (const std::int32_t id : r.ids) ++rows[static_cast<std::size_t>(id)];
  return static_cast<double>(*std::ranges::max_element(rows)) * static_cast<double>(l.experts) /
         static_cast<double>(r.ids.size());
}

}  // namespace tilelace::cli
