// SPDX-License-Identifier: Apache-2.0
// The one table of problems, of CPU ranks and of GPUs: sizes at the edges of tiles, primes, shards
// that differ or are empty, epilogues. Seeded; the same on every rank.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "tilelace/plan.h"

namespace tilelace::conformance {

/// Seeded numbers; the same on every platform.
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

/// What a device has, and how large its problems are.
struct Domain {
  std::int64_t unit = 1;  ///< n and k are multiples of it
  std::int64_t least_rows = 0, most_rows = 0, most_cols = 0, most_depth = 0;
  std::int64_t most_edge_rows = 0;      ///< of edges; 0: most_rows
  std::int64_t most_weights = 1;        ///< of ag_gemm
  std::int64_t down = 1, across = 1;    ///< a tile, whose edges are met
  std::vector<std::int64_t> more_rows;  ///< edges beside the tile's and the ranks'
  std::vector<std::int64_t> more_cols;
  std::vector<std::int64_t> depths;
  bool exact = false;       ///< results bit by bit: no activation
  bool exact_bias = false;  ///< the bias is of integers, too
  bool gated = false;       ///< ag_gemm: with swiglu alone
};

Problem draw_problem(Random& random, Op op, int ranks, DType dtype, const Domain& domain);

}  // namespace tilelace::conformance
