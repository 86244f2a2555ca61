// SPDX-License-Identifier: Apache-2.0
// gemm_rs on GPUs: the GEMM, and the needs of its partial sums.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/gemm/gemm_plan.h"
#include "schedule/rows.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// Remote shards first; partial sums go directly into their owner's slot.
struct GemmRsWay {
  GemmPlan gemm;
  /// How remote shards are walked: 1: together, which reads the weight once for them; else one
  /// after the other.
  int apart = 1;
  double predicted_us = 0;
  bool pairs = false;  ///< the CTAs of a cluster have tiles of two shards
};

/// Number of tiles; each is a worker's (a cluster's).
int tiles_of(const GemmRsWay&, const Problem&);

/// All legal plans for a problem of Op::gemm_rs, fastest prediction first. Errors: usage (not a
/// gemm_rs, n or k not a multiple of 8, no rows).
std::vector<GemmRsWay> gemm_rs_candidates(const Problem&, const GemmMachine& = {});

/// Rows of workers' tiles over all shards: each shard has its own; in pairs two shards share them.
schedule::Index tile_rows_of(const schedule::RowSplit&, const GemmTile&, bool pairs);

/// Bytes of a piece of a partial: eight values of each thread of a group.
constexpr int kPartialPieceBytes = 2048;

/// Parts of a partial of a worker's tile: one per math group that computes it, with a flag each.
/// Where groups take turns (pingpong), that is one group of each CTA.
int given_parts(const GemmTile&);

/// Bytes of all these parts, each rounded up to whole pieces (kPartialPieceBytes).
std::int64_t given_bytes(const GemmTile&);

/// Whether one stage of operands in shared memory has room for all peers' pieces added at once.
bool holds_terms(const GemmTile&, int ranks);

/// Flags per slot: one per math group of each partial.
inline constexpr std::int64_t kMaxPartialFlags = 1 << 17;

/// Whether a slot has flags for this many partials.
bool has_flags(const GemmTile&, std::int64_t partials);

/// Bytes per slot of partial sums on each rank, for every plan.
std::int64_t gemm_rs_staging_bytes(const Problem&, int architecture = 0);

}  // namespace tilelace::plan
