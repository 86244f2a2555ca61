// SPDX-License-Identifier: Apache-2.0
// Random shapes of a fused gemm_ar, for tests of its order of tiles (ShareOrder).
#pragma once
#include <random>
#include <vector>

#include "schedule/make_share_order.h"

namespace tilelace::schedule {

struct ShareShape {
  RowSplit split;
  Route route;
  int cols = 1, worker_rows = 64, lag = 1;
  Index block_rows = 64;
  bool by_columns = false;

  [[nodiscard]] ShareOrder of(int rank) const {
    if (by_columns)
      return make_share_order_of_columns(split.m, route, rank, split.ranks, cols, worker_rows, lag);
    return make_share_order(split, route, rank, cols, worker_rows, block_rows, lag);
  }
};

/// A random number from 1 to `most`.
inline int any(std::mt19937& rng, int most) {
  return 1 + static_cast<int>(rng() % static_cast<unsigned>(most));
}

/// A random shape with at most `most_cols` columns.
inline ShareShape random_shape(std::mt19937& rng, bool few_rows, int most_cols) {
  ShareShape s;
  const int ranks = any(rng, kMaxGpuRanks);
  s.split = {any(rng, few_rows ? 20 : 6000), ranks, nullptr};
  s.route = {RouteKind::mesh, ranks, ranks};
  s.cols = any(rng, most_cols);
  s.worker_rows = 64 * any(rng, 4);
  s.lag = any(rng, 25);
  const Index least = ceil_div(ceil_div(s.split.max_rows(), s.worker_rows), kMaxShareBlocks);
  s.block_rows = s.worker_rows * (least + any(rng, 3) - 1);
  s.by_columns = any(rng, 3) == 1;
  return s;
}

}  // namespace tilelace::schedule
