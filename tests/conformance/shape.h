// SPDX-License-Identifier: Apache-2.0
// Which rows of a call a rank has, apart from what the library says of it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "tilelace/plan.h"

namespace tilelace::test {

/// Rows of m before each rank's shard, then m.
inline std::vector<std::int64_t> borders_of(const Problem& p) {
  std::vector<std::int64_t> borders{0};
  for (int r = 0; r < p.ranks; ++r) {
    const std::int64_t even = p.m / p.ranks + (r < p.m % p.ranks ? 1 : 0);
    borders.push_back(borders.back() +
                      (p.rows.empty() ? even : p.rows.at(static_cast<std::size_t>(r))));
  }
  return borders;
}

/// The rank whose shard has this row.
inline int owner_of(const std::vector<std::int64_t>& borders, std::int64_t row) {
  return static_cast<int>(
      std::distance(borders.begin(), std::upper_bound(borders.begin(), borders.end(), row)) - 1);
}

/// What a rank of a call holds. The rows that an op gathers are one operand to its product; where
/// it sums, each rank's operand and weight are a part of a product over the k of all.
struct OpShape {
  OpShape(const Problem& p, int rank) : sums(p.op != Op::ag_gemm) {
    const auto borders = borders_of(p);
    const auto self = static_cast<std::size_t>(rank);
    const std::int64_t first = borders.at(self);
    const std::int64_t rows = borders.at(self + 1) - first;
    inputs = sums ? p.m : rows;
    input_row = sums ? 0 : first;
    const bool scattered = p.op == Op::gemm_rs;
    results = scattered ? rows : p.m;
    result_row = scattered ? first : 0;
    parts = sums ? p.ranks : 1;
    own_part = sums ? rank : 0;
  }
  bool sums = false;
  int parts = 1;                             ///< of the product behind a result
  int own_part = 0;                          ///< the one that this rank has
  std::int64_t input_row = 0, inputs = 0;    ///< rows of this rank's input: from, how many
  std::int64_t result_row = 0, results = 0;  ///< rows of this rank's results
};

}  // namespace tilelace::test
