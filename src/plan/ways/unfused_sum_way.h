// SPDX-License-Identifier: Apache-2.0
// gemm_rs and gemm_ar on GPUs, path `unfused`: a GEMM into this rank's slot, then one kernel that
// adds the partials of all slots.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/base/hardware.h"
#include "plan/collectives/collective.h"
#include "plan/gemm/gemm_plan.h"
#include "schedule/reduce_rows.h"
#include "tilelace/plan.h"
#include "tilelace/transport_table.h"

namespace tilelace::plan {

struct UnfusedSumWay {
  GemmPlan gemm;
  /// `pull`: every rank reads the rows that it needs (gemm_ar: all rows). `store` (gemm_ar): every
  /// rank sums its own rows and stores the sum at all peers, with less traffic than `pull` but one
  /// more wait. `push`: a collective adds the partials (schedule/exchange.h).
  Transport transport = transport_that(Carrier::engine, true);
  std::int64_t chunk_rows = 1;  ///< rows that a CTA sums at a time; also rows per flag, if any
  double predicted_us = 0;
  /// gemm_ar with transport push. 1 (one-shot): every rank sums all rows; 2 (two-shot): each rank
  /// sums its own rows and sends the sum to all ranks. Transport push does not use chunk_rows.
  int shots = 1;
  bool lines = false;  ///< transport push; true: flags are in the data; false: a flag per chunk
  /// 0: this library's kernel multiplies. N: cuBLASLt multiplies with the N-th algorithm that it
  /// proposes, or with the last if it proposes fewer; the predicted time derives from `gemm`.
  int cublas = 0;
};

/// How many of cuBLASLt's algorithms are candidates.
inline constexpr int kCublasAlgorithms = 3;

/// Number of tiles. Each is computed by one worker (a cluster).
int tiles_of(const UnfusedSumWay&, const Problem&);

/// All legal plans for a problem of Op::gemm_rs or gemm_ar, fastest prediction first. Errors: usage
/// (another op, too many ranks, n or k not a multiple of 8, no rows).
std::vector<UnfusedSumWay> gemm_reduce_candidates(const Problem&, const GemmMachine& = {});

/// Predicted time of the sum if nothing else runs.
double reduce_us(const Problem&, const UnfusedSumWay&, const Hardware&);

/// The largest number of CTAs of the kernel that sums: one CTA per SM that the GEMM uses.
int reduce_ctas(const UnfusedSumWay&);

/// The schedule of the kernel that sums.
schedule::ReduceRows reduce_rows_schedule(const Problem&, const UnfusedSumWay&, int rank);

/// Transport push: pushed_sum gives the collective's call, whose input is the rank's partial.
/// pushed_plan gives the collective's plan; all ranks must pass equal CollectiveMachines to it.
CollectiveCall pushed_sum(const Problem&, int rank);
CollectivePlan pushed_plan(const UnfusedSumWay&, const CollectiveCall&, CollectiveMachine);

/// Bytes that a rank's partial takes in a slot. Pushed data follows it.
std::int64_t partial_bytes(const Problem&);

/// Bytes per slot on each rank, for calls of up to the problem's m rows. gemm_reduce_staging_bytes
/// is for data; gemm_reduce_line_bytes, beside the slot, is for words with their call's number.
std::int64_t gemm_reduce_staging_bytes(const Problem&);
std::int64_t gemm_reduce_line_bytes(const Problem&);

}  // namespace tilelace::plan
