// SPDX-License-Identifier: Apache-2.0
// Fused gemm_rs on GPUs: the GEMM, and the flags and bytes that its partials need.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/gemm/gemm_plan.h"
#include "schedule/rows.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// Remote shards are computed first. Partials are stored directly in their owner's staging memory.
struct GemmRsWay {
  GemmPlan gemm;
  /// 1: remote shards are walked together, so that the weight is read only once for all of them;
  /// more: remote shards are walked one after the other.
  int apart = 1;
  double predicted_us = 0;
  bool pairs = false;  ///< the CTAs of a cluster have tiles of two shards
};

/// Number of tiles. Each is computed by one worker (a cluster).
int tiles_of(const GemmRsWay&, const Problem&);

/// All legal plans for a problem of Op::gemm_rs, fastest prediction first. Errors: usage (not a
/// gemm_rs, n or k not a multiple of 8, no rows).
std::vector<GemmRsWay> gemm_rs_candidates(const Problem&, const GemmMachine& = {});

/// Number of rows of workers' tiles, in all shards or, with `pairs`, in all pairs of shards.
schedule::Index tile_rows_of(const schedule::RowSplit&, const GemmTile&, bool pairs);

/// Bytes of a piece of a partial, which has eight values from each thread of a warpgroup.
constexpr int kPartialPieceBytes = 2048;

/// Number of parts in the partial of a worker's tile: one part, with a flag, per warpgroup that
/// computes the tile. With ping-pong (warpgroups alternate between tiles), that is one per CTA.
int given_parts(const GemmTile&);

/// Bytes of all parts of a partial, each rounded up to whole pieces (kPartialPieceBytes).
std::int64_t given_bytes(const GemmTile&);

/// Whether a stage of the ring of operands in shared memory has room for all pieces that are added
/// at once (terms_at_once), from all peers together.
bool holds_terms(const GemmTile&, int ranks);

/// Flags for partials per slot: one per part of each partial (given_parts).
inline constexpr std::int64_t kMaxPartialFlags = 1 << 17;

/// Whether a slot has flags for this many partials.
bool has_flags(const GemmTile&, std::int64_t partials);

/// Bytes of partials per slot on each rank, enough for every plan.
std::int64_t gemm_rs_staging_bytes(const Problem&, int architecture = 0);

}  // namespace tilelace::plan
