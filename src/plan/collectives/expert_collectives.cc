// SPDX-License-Identifier: Apache-2.0
#include "plan/collectives/expert_collectives.h"

#include <numeric>
#include <utility>

namespace tilelace::plan {
namespace {

CollectiveCall call_of(Collective collective, Item item, int ranks, std::vector<Index> counts) {
  return {collective, Reduction::sum, item, 0, ranks, {}, {}, std::move(counts)};
}

/// Elements of each rank's tokens.
std::vector<Index> counts_of(std::int64_t m, int ranks, std::int64_t each) {
  std::vector<Index> counts;
  for (int r = 0; r < ranks; ++r) counts.push_back((m / ranks + (r < m % ranks ? 1 : 0)) * each);
  return counts;
}

}  // namespace

std::vector<ExpertCollective> expert_gathers(const MoeLayer& l, std::int64_t m, int ranks) {
  if (l.replicated) return {};
  const auto gather = [&](Item item, std::int64_t each) {
    return call_of(Collective::all_gather, item, ranks, counts_of(m, ranks, each));
  };
  return {{"tokens", gather(item_of(l.dtype), l.hidden)},
          {"ids", gather(Item::i32, l.top_k)},
          {"weights", gather(item_of(kAccumulator), l.top_k)}};
}

ExpertCollective expert_sum(const MoeLayer& l, std::int64_t m, int ranks, Collective collective) {
  std::vector<Index> counts{m * l.hidden};
  if (collective != Collective::all_reduce) counts = counts_of(m, ranks, l.hidden);
  return {"sums", call_of(collective, item_of(l.dtype), ranks, std::move(counts))};
}

double sent_bytes(const CollectiveCall& c, const CollectivePlan& p, int rank) {
  const auto all = static_cast<double>(std::accumulate(c.counts.begin(), c.counts.end(), Index{0}));
  const double peers = c.ranks - 1;
  double elements = peers * all;  // all_reduce in one shot
  if (c.collective == Collective::all_reduce && p.shots == 2) elements *= 2.0 / c.ranks;
  if (c.collective != Collective::all_reduce) {
    const auto own = static_cast<double>(c.counts[static_cast<std::size_t>(rank)]);
    elements = c.collective == Collective::all_gather ? peers * own : all - own;
  }
  return elements * static_cast<double>(row_of(c.item).bytes) * (p.lines ? 2 : 1);
}

}  // namespace tilelace::plan
