// SPDX-License-Identifier: Apache-2.0
// gemm_rs on GPUs: which product, and what its partial sums take.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/gemm/gemm_plan.h"
#include "schedule/rows.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// Remote shards first, partial sums straight into their owner's slot.
struct GemmRsWay {
  GemmPlan gemm;
  /// Remote shards that are walked one after the other: 1: together, which reads the weight once
  /// for them; else all of them.
  int apart = 1;
  double predicted_us = 0;
  bool pairs = false;  ///< a cluster's CTAs have tiles of two shards
};

/// Of workers.
int tiles_of(const GemmRsWay&, const Problem&);

/// All legal plans for a problem of Op::gemm_rs, fastest prediction first. Errors: usage (not a
/// gemm_rs, n or k not a multiple of 8, no rows).
std::vector<GemmRsWay> gemm_rs_candidates(const Problem&, const GemmMachine& = {});

/// Rows of workers' tiles of all shards, each of which has its own or, in pairs, half of one.
schedule::Index tile_rows_of(const schedule::RowSplit&, const GemmTile&, bool pairs);

/// Of a partial, eight values of each thread of a group.
constexpr int kPartialPieceBytes = 2048;

/// Parts of a partial of one worker's tile: each math group of its CTAs leaves one, and raises a
/// flag.
int given_parts(const GemmTile&);

/// What they take, of a thread's values in pieces of eight.
std::int64_t given_bytes(const GemmTile&);

/// Whether a step of the ring has room for what is added together of each peer's term of a tile.
bool holds_terms(const GemmTile&, int ranks);

/// Flags of one slot: a math group's of each partial.
inline constexpr std::int64_t kMaxPartialFlags = 1 << 17;

/// Whether so many partials of workers' tiles have their flags in a slot.
bool has_flags(const GemmTile&, std::int64_t partials);

/// Bytes of one slot that partial sums take on each rank, whatever the plan.
std::int64_t gemm_rs_staging_bytes(const Problem&, int architecture = 0);

}  // namespace tilelace::plan
