// SPDX-License-Identifier: Apache-2.0
// Fused gemm_ar on GPUs: which product, and in which order.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/gemm/gemm_plan.h"
#include "plan/ways/gemm_rs_way.h"
#include "schedule/make_share_order.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// Partial sums go to owners, finished tiles from owners to all.
struct GemmArWay {
  GemmPlan gemm;
  std::int64_t block_rows = 1;  ///< of a shard, walked before the next ones
  int lag = 1;                  ///< columns of tiles by which own tiles come behind remote ones
  double predicted_us = 0;
  bool by_columns = false;  ///< owners have columns of all rows, which are one block; else rows
};

/// Of workers.
int tiles_of(const GemmArWay&, const Problem&);

/// Errors: usage (another op, a malformed problem, more ranks than its kernels have places for).
void require_gemm_ar(const Problem&);

/// All legal plans for a problem of Op::gemm_ar, fastest prediction first; empty where no tile fits
/// the ranks. Errors: usage (not a gemm_ar, n or k not a multiple of 8, no rows).
std::vector<GemmArWay> gemm_ar_candidates(const Problem&, const GemmMachine& = {});

/// For how long partials of the second half of every owner's columns wait where all products end
/// together: the links then carry the first half's alone, whose results travel while the second
/// half's partials arrive, are added, and are on their way.
double gemm_ar_hold_us(const Problem&, const GemmArWay&);

schedule::ShareOrder gemm_ar_order(const Problem&, const GemmArWay&, int rank);

/// Flags of one slot on each rank: of partials, of finished tiles.
constexpr std::int64_t kGemmArFlags = 2 * kMaxPartialFlags;

/// Bytes of one slot on each rank, whatever the plan: partials, and results where they are staged.
std::int64_t gemm_ar_staging_bytes(const Problem&, int architecture = 0);

}  // namespace tilelace::plan
