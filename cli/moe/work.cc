// SPDX-License-Identifier: Apache-2.0
#include "moe/work.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>

#include "core/check.h"
#include "schedule/moe_map.h"
#include "sizes.h"

namespace tilelace::cli {
namespace {

constexpr std::string_view kMoeOps[] = {"moe_rs", "moe_ar", "ag_moe"};
/// The first ones stand for a whole layer, too.
constexpr std::size_t kLayers = 2;
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

bool are_moe(std::string_view command, std::string_view ops, bool halves) {
  const auto parts = split_list(fmt::format("{}: op", command), ops);
  const auto resembles = [](const std::string& part) {
    return part.starts_with("moe_") || is_first_half(part);
  };
  const auto count = std::ranges::count_if(parts, resembles);
  require(count == 0 || count == std::ssize(parts),
          "{}: {} has mixtures of experts and other ops: ask for them in two calls", command, ops);
  const std::span taken(kMoeOps, halves ? std::size(kMoeOps) : kLayers);
  for (const std::string& part : parts)
    require(count == 0 || std::ranges::count(taken, part) > 0, "{}: op: got \"{}\", expected {}",
            command, part, fmt::join(taken, " or "));
  return count > 0;
}

bool is_first_half(std::string_view op) { return op == kMoeOps[kLayers]; }

bool is_replicated(std::string_view op) { return op == kMoeOps[1]; }

std::string layer_text(const MoeWork& work) {
  const MoeLayer& l = work.layer;
  return fmt::format("{} rank{}, {}{}, hidden {}, inner {}, {} experts, top {}, {}", work.ranks,
                     work.ranks == 1 ? "" : "s", work.model.empty() ? "" : work.model + ", ",
                     name_of(l.dtype), l.hidden, l.inner * work.ranks, l.experts, l.top_k,
                     row_of(l.activation).name);
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

std::vector<int> expert_rows(const Routed& r, const MoeLayer& l, std::int64_t m) {
  const schedule::MoeMap shape{m, l.top_k, l.experts, 0, l.experts};
  std::vector<std::int32_t> map(static_cast<std::size_t>(shape.words()));
  schedule::fill_moe_map(shape, r.ids.data(), map.data());
  std::vector<int> rows;
  for (std::size_t e = 0; e < static_cast<std::size_t>(l.experts); ++e)
    rows.push_back(map[e + 1] - map[e]);
  return rows;
}

double imbalance(const std::vector<int>& rows) {
  const auto all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  if (all == 0) return 1;
  return static_cast<double>(*std::ranges::max_element(rows)) * static_cast<double>(rows.size()) /
         static_cast<double>(all);
}

}  // namespace tilelace::cli
