// SPDX-License-Identifier: Apache-2.0
// Fused gemm_ar on GPUs: the GEMM and the order of its tiles.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/gemm/gemm_plan.h"
#include "plan/ways/gemm_rs_way.h"
#include "schedule/make_share_order.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// Ranks send partial sums to the owners of tiles, and owners send finished tiles to all ranks.
struct GemmArWay {
  GemmPlan gemm;
  std::int64_t block_rows = 1;  ///< rows of a shard in each block (schedule/share_order.h)
  int lag = 1;                  ///< own tiles of a column come `lag` columns after its remote tiles
  double predicted_us = 0;
  bool by_columns = false;  ///< true: a rank owns columns (one block); false: a rank owns rows
};

/// Number of tiles. Each is computed by one worker (a cluster).
int tiles_of(const GemmArWay&, const Problem&);

/// Throws unless this is a valid gemm_ar. Errors: usage (another op, an invalid problem, more ranks
/// than kernels support).
void require_gemm_ar(const Problem&);

/// All possible plans for a problem of Op::gemm_ar, fastest prediction first; empty if no tile fits
/// the ranks. Errors: usage (not a gemm_ar, n or k not a multiple of 8, no rows).
std::vector<GemmArWay> gemm_ar_candidates(const Problem&, const GemmMachine& = {});

/// Time for which the partials of each owner's second half of columns are held back, so that the
/// results of the first half travel while these partials arrive and are added. 0 unless owners have
/// columns, all tiles end at once and the plan has one round.
double gemm_ar_hold_us(const Problem&, const GemmArWay&);

schedule::ShareOrder gemm_ar_order(const Problem&, const GemmArWay&, int rank);

/// Number of flags per slot on each rank, for partials and for finished tiles.
constexpr std::int64_t kGemmArFlags = 2 * kMaxPartialFlags;

/// Bytes per slot on each rank for partials and for staged results, enough for every plan.
std::int64_t gemm_ar_staging_bytes(const Problem&, int architecture = 0);

}  // namespace tilelace::plan
