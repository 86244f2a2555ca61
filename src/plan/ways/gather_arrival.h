// SPDX-License-Identifier: Apache-2.0
// When rows of peers are there, by who moves them, and what waiting for them makes of a product:
// what plans of ag_gemm count with.
#pragma once
#include "plan/base/hardware.h"
#include "schedule/rows.h"
#include "tilelace/choices.h"

namespace tilelace::plan {

/// Who moves rows on which way, cut how.
struct Travel {
  Transport transport = {};
  RouteKind route = RouteKind::mesh;
  schedule::Index chunk_rows = 1;
};

/// What travels: shards of so many rows, of every rank to all others.
struct Gathering {
  Travel way;
  schedule::Index rows = 0, row_bytes = 0;
  int ranks = 1;

  [[nodiscard]] schedule::Index chunks() const {
    return schedule::ceil_div(rows, schedule::max_of(1, way.chunk_rows));
  }
};

/// When the first `chunks` chunks of the `peer`-th shard to arrive (1: the first) are there; 0: all
/// of them. From when they are asked for, nothing else running.
double arrival_us(const Hardware&, const Gathering&, int peer, schedule::Index chunks = 0);

/// A call whose products take `products_us` by themselves and walk shards in order of arrival, the
/// own one first, the first `apart` of them one after the other and the others together.
double gathered_us(const Hardware&, const Gathering&, double products_us, int apart);

}  // namespace tilelace::plan
