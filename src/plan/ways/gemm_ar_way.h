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

/// Partial sums go to owners; finished tiles go from owners to all.
struct GemmArWay {
  GemmPlan gemm;
  std::int64_t block_rows = 1;  ///< rows of each shard that are walked before any later ones
  int lag = 1;                  ///< columns of tiles by which own tiles follow remote ones
  double predicted_us = 0;
  bool by_columns = false;  ///< an owner has columns of all rows (one block); else rows
};

/// Number of tiles; each is a worker's (a cluster's).
int tiles_of(const GemmArWay&, const Problem&);

/// Errors: usage (another op, an invalid problem, more ranks than its kernels support).
void require_gemm_ar(const Problem&);

/// All possible plans for a problem of Op::gemm_ar, fastest prediction first; empty if no tile fits
/// the ranks. Errors: usage (not a gemm_ar, n or k not a multiple of 8, no rows).
std::vector<GemmArWay> gemm_ar_candidates(const Problem&, const GemmMachine& = {});

/// How long partials of the second half of every owner's columns are held back where all tiles end
/// together: the links first carry the first half, whose results then travel while the second
/// half's partials arrive and are added.
double gemm_ar_hold_us(const Problem&, const GemmArWay&);

schedule::ShareOrder gemm_ar_order(const Problem&, const GemmArWay&, int rank);

/// Flags per slot on each rank: for partials and for finished tiles.
constexpr std::int64_t kGemmArFlags = 2 * kMaxPartialFlags;

/// Bytes per slot on each rank, for every plan: partials, and results where they are staged.
std::int64_t gemm_ar_staging_bytes(const Problem&, int architecture = 0);

}  // namespace tilelace::plan
