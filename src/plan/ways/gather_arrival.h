// SPDX-License-Identifier: Apache-2.0
// Predicts, for plans of ag_gemm, when the peers' rows arrive by each transport, and how much the
// wait for rows delays a GEMM.
#pragma once
#include <vector>

#include "plan/base/hardware.h"
#include "schedule/rows.h"
#include "tilelace/choices.h"

namespace tilelace::plan {

/// How rows travel.
struct Travel {
  Transport transport = {};
  RouteKind route = RouteKind::mesh;
  schedule::Index chunk_rows = 1;
};

/// An all-gather in which every rank sends a shard of `rows` rows to all peers.
struct Gathering {
  Travel way;
  schedule::Index rows = 0, row_bytes = 0;
  int ranks = 1;

  [[nodiscard]] schedule::Index chunks() const {
    return schedule::ceil_div(rows, schedule::max_of(1, way.chunk_rows));
  }
};

/// Rows per flag where CTAs of a product send a shard of `rows` rows to each of `targets` ranks: as
/// few as leave no CTA two chunks, since it would wait for the first one to arrive.
schedule::Index sent_chunk_rows(schedule::Index rows, int targets, int ctas);

/// Time from the start of the transfers until a shard's first `chunks` chunks (0: all) are here, if
/// nothing else runs. `peer`: the shard's place in order of arrival, from 1.
double arrival_us(const Hardware&, const Gathering&, int peer, schedule::Index chunks = 0);

/// Times of a call's GEMMs if all rows are there.
struct ShardProducts {
  double us = 0;                ///< of all shards
  std::vector<double> left_us;  ///< [i]: of the tiles of the last i shards; [0] is not read
  double chunk_us = 0;          ///< of the tiles of one chunk
};

/// Time of a call with these GEMMs. The first `apart` shards, beginning with the own shard, are
/// walked one after the other; all later shards are walked together.
double gathered_us(const Hardware&, const Gathering&, const ShardProducts&, int apart);

}  // namespace tilelace::plan
