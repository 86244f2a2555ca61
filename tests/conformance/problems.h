// SPDX-License-Identifier: Apache-2.0
// Draws random problems for CPU ranks and for GPUs. Many sizes are primes or at edges of tiles, and
// shards may differ or be empty. The same seed gives the same problems on every rank.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "tilelace/plan.h"

namespace tilelace::conformance {

/// Random numbers. A seed gives the same numbers on every platform.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t next() { return engine_(); }
  /// Uniform in [0, end).
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(end));
  }
  /// Uniform in [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from.at(static_cast<std::size_t>(below(static_cast<std::int64_t>(from.size()))));
  }

 private:
  std::mt19937_64 engine_;
};

/// Which problems a device can compute, and how large they may be. Edges are sizes drawn often.
struct Domain {
  std::int64_t unit = 1;  ///< n and k are multiples of this
  std::int64_t least_rows = 0, most_rows = 0, most_cols = 0, most_depth = 0;
  std::int64_t most_edge_rows = 0;      ///< limit of m if m is an edge; 0: most_rows
  std::int64_t most_weights = 1;        ///< the largest number of weights of an ag_gemm
  std::int64_t down = 1, across = 1;    ///< a tile has `down` rows and `across` columns
  std::vector<std::int64_t> more_rows;  ///< edges of m, besides multiples of tiles and ranks
  std::vector<std::int64_t> more_cols;
  std::vector<std::int64_t> depths;
  bool exact = false;       ///< problems have no activation, so results can be compared bit by bit
  bool exact_bias = false;  ///< exact problems may have a bias, which consists of integers
  bool gated = false;       ///< every ag_gemm that is not exact has swiglu
};

Problem draw_problem(Random& random, Op op, int ranks, DType dtype, const Domain& domain);

}  // namespace tilelace::conformance
