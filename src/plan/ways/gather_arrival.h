// SPDX-License-Identifier: Apache-2.0
// When rows of peers are there, by who moves them: what plans of ag_gemm count with.
#pragma once
#include "schedule/rows.h"
#include "tilelace/choices.h"

namespace tilelace::plan {

/// Who moves rows on which way, cut how.
struct Travel {
  Transport transport = {};
  RouteKind route = RouteKind::mesh;
  schedule::Index chunk_rows = 1;
};

/// When the first chunk of a peer is there, and when all rows are.
struct Arrival {
  double first_us = 0, last_us = 0;
};

/// Of shards of `rows` rows, by copy engines or NCCL, when nothing else runs.
Arrival arrival_of(const Travel&, schedule::Index rows, schedule::Index row_bytes, int ranks);

/// Sent by the product's warps, by shard (benchmarks/nvidia-h200-tp4).
inline constexpr double kPushBytesPerUs = 280e3;

/// How long a rank's own rows take to all peers, sent by the product's warps.
double pushed_us(schedule::Index rows, schedule::Index row_bytes, int ranks,
                 double bytes_per_us = kPushBytesPerUs);

}  // namespace tilelace::plan
