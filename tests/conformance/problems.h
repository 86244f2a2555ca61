// SPDX-License-Identifier: Apache-2.0
// Draws problems for CPU ranks and for GPUs: sizes at the edges of tiles, primes, shards that
// differ or are empty, epilogues. The same seed gives the same problems on every rank.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "tilelace/plan.h"

namespace tilelace::conformance {

/// Random numbers by seed; the same on every platform.
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

/// What a device can do, and how large its problems may be.
struct Domain {
  std::int64_t unit = 1;  ///< n and k are multiples of this
  std::int64_t least_rows = 0, most_rows = 0, most_cols = 0, most_depth = 0;
  std::int64_t most_edge_rows = 0;      ///< limit of rows at edges; 0: most_rows
  std::int64_t most_weights = 1;        ///< limit for ag_gemm
  std::int64_t down = 1, across = 1;    ///< a tile, at whose edges sizes are drawn
  std::vector<std::int64_t> more_rows;  ///< more edges, besides those of the tile and the ranks
  std::vector<std::int64_t> more_cols;
  std::vector<std::int64_t> depths;
  bool exact = false;       ///< results are compared bit by bit, so there is no activation
  bool exact_bias = false;  ///< the bias has integers, too
  bool gated = false;       ///< ag_gemm: only with swiglu
};

Problem draw_problem(Random& random, Op op, int ranks, DType dtype, const Domain& domain);

}  // namespace tilelace::conformance
