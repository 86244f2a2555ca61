// SPDX-License-Identifier: Apache-2.0
// Which rows of a call each rank has, computed independently of the library.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "tilelace/plan.h"

namespace tilelace::test {

/// The first row of each rank's shard, and m as the last element.
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

/// A rank's part of a call. In ag_gemm, the gathered rows are one operand, so the product has one
/// part. In gemm_rs and gemm_ar, the product runs over the k of all ranks: each rank's operand and
/// weight are one part.
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
  int parts = 1;                             ///< number of parts that a result sums
  int own_part = 0;                          ///< index of this rank's part
  std::int64_t input_row = 0, inputs = 0;    ///< `inputs` rows of input, from `input_row` on
  std::int64_t result_row = 0, results = 0;  ///< `results` rows, from `result_row` on
};

}  // namespace tilelace::test
