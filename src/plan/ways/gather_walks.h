// SPDX-License-Identifier: Apache-2.0
// What it costs ag_gemm to walk a product shard by shard: waits for rows, and a weight that is read
// more than once.
#pragma once
#include <vector>

#include "plan/gemm_tiles.h"
#include "plan/ways/gather_arrival.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// A product by shard: all of it, and tiles along its rows and columns.
struct GatherWalk {
  double us;
  schedule::Index rows, cols;
  int workers;
};

/// Shards that join the own one, each behind so many tiles, and what that saves.
struct GatherJoining {
  std::vector<int> after;
  double saved_us = 0;
};

/// Prices of a problem's walks. The problem must outlive it.
class GatherWalks {
 public:
  /// `most_rows` of a shard; `first_n`: columns of the first product.
  GatherWalks(const Problem& p, schedule::Index most_rows, schedule::Index first_n);

  /// What waits for rows add to a product whose first `apart` shards are walked one after the
  /// other: where the own shard's tiles fill no wave, some workers begin with a peer's.
  [[nodiscard]] double late_us(const GatherWalk&, int apart, Arrival) const;

  /// What reading weights again costs, for every walk over them more than the product alone takes.
  /// Walks that share a wave read them once. Between two ranks that is not to be seen (m 512 and
  /// 1024, two H200s: predictions 4 to 9 % above).
  [[nodiscard]] double reread_us(const GatherWalk&, int apart) const;

  /// Shards that join the own one behind whole waves of tiles, by when their rows have come, and
  /// what is read once less than with the own one apart.
  [[nodiscard]] GatherJoining joining(const GemmTile&, const GatherWalk&, Arrival) const;

 private:
  /// Of the first product's weight, once more.
  [[nodiscard]] double reading_us() const;

  const Problem& p_;
  schedule::Index most_rows_, first_n_;
};

}  // namespace tilelace::plan
