// SPDX-License-Identifier: Apache-2.0
#include "conformance/problems.h"

#include <algorithm>

namespace tilelace::conformance {
namespace {

using Extents = std::vector<std::int64_t>;

struct Range {
  std::int64_t least, most, most_edge, unit;
};

/// One of the edges, or anything up to `most`; a multiple of `unit`.
std::int64_t pick(Random& random, const Extents& edges, const Range& r) {
  if (random.below(2) == 0) return (1 + random.below(r.most / r.unit)) * r.unit;
  const std::int64_t edge = random.pick(edges);
  return std::clamp((edge + r.unit - 1) / r.unit * r.unit, r.least, r.most_edge / r.unit * r.unit);
}

Extents with(Extents edges, const Extents& more) {
  edges.insert(edges.end(), more.begin(), more.end());
  return edges;
}

std::int64_t draw_m(Random& random, int ranks, const Domain& d) {
  const std::int64_t down = d.down;
  const std::int64_t most_edge = d.most_edge_rows > 0 ? d.most_edge_rows : d.most_rows;
  // Tiles' edges in all rows together, and in a shard.
  return pick(random,
              with({1, std::max(1, ranks - 1), ranks, ranks + 1, down - 1, down, down + 1,
                    2 * down + 1, ranks * down - 1, ranks * down, ranks * down + 1},
                   d.more_rows),
              {d.least_rows, d.most_rows, most_edge, 1});
}

/// Shards that are not even: cut anywhere, one rank without rows, or all rows on one rank.
Extents draw_rows(Random& random, int ranks, std::int64_t m) {
  const auto count = static_cast<std::size_t>(ranks);
  Extents rows(count, 0);
  const auto kind = random.below(4);
  if (kind == 0) {
    rows.at(static_cast<std::size_t>(random.below(ranks))) = m;
    return rows;
  }
  Extents cuts{0, m};
  for (std::size_t i = 1; i < count; ++i) {
    const std::int64_t cut = random.below(m + 1);
    cuts.push_back(kind == 1 ? cut / 64 * 64 : cut);
  }
  std::sort(cuts.begin(), cuts.end());
  for (std::size_t i = 0; i < count; ++i) rows[i] = cuts[i + 1] - cuts[i];
  if (kind == 2 && count > 1) {
    const auto from = static_cast<std::size_t>(random.below(ranks));
    rows[(from + 1) % count] += rows[from];
    rows[from] = 0;
  }
  return rows;
}

void draw_extents(Random& random, const Domain& d, Problem& p) {
  const bool gathers = p.op == Op::ag_gemm;
  const auto columns = [&] {
    return pick(
        random,
        with({d.unit, 3 * d.unit, d.across - d.unit, d.across, d.across + d.unit, 2 * d.across},
             d.more_cols),
        {d.unit, d.most_cols, d.most_cols, d.unit});
  };
  p.m = draw_m(random, p.ranks, d);
  if (p.op != Op::gemm_ar && random.below(3) == 0) p.rows = draw_rows(random, p.ranks, p.m);
  p.n.push_back(columns());
  if (gathers && random.below(3) == 0)
    for (auto more = random.below(d.most_weights - 1); more >= 0; --more)
      p.n.push_back(random.below(2) == 0 ? p.n[0] : columns());
  p.k = pick(random, d.depths, {d.unit, d.most_depth, d.most_depth, d.unit});
}

}  // namespace

Problem draw_problem(Random& random, Op op, int ranks, DType dtype, const Domain& d) {
  Problem p;
  p.op = op;
  p.ranks = ranks;
  p.dtype = dtype;
  const bool gathers = op == Op::ag_gemm;
  draw_extents(random, d, p);
  p.bias = (!d.exact || d.exact_bias) && random.below(2) == 0;
  if (!d.exact && random.below(2) == 0) p.activation = static_cast<Activation>(1 + random.below(3));
  if (!gathers && random.below(3) == 0) {
    p.residual = true;
    p.activation = Activation::none;
  }
  p.return_gathered = gathers && random.below(2) == 0;
  if (gathers && !d.exact && (random.below(4) == 0 || d.gated)) {
    p.activation = Activation::swiglu;
    p.n = {p.n[0], p.n[0]};
  }
  return p;
}

}  // namespace tilelace::conformance
