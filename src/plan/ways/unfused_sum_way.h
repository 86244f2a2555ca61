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
  /// `pull`: every rank reads the rows that it needs (gemm_ar: all). `store` (gemm_ar): every rank
  /// reads its own rows and writes their sum to all peers: less traffic than `pull`, but one more
  /// wait. `push`: a collective of the partials (schedule/exchange.h).
  Transport transport = transport_that(Carrier::engine, true);
  std::int64_t chunk_rows = 1;  ///< rows that a CTA sums at a time; transport store: rows per flag
  double predicted_us = 0;
  /// Transport push of gemm_ar: 1 (one-shot): every rank sums all rows; 2 (two-shot): each rank
  /// sums its own rows and sends the sum to all. (chunk_rows is unused: see pushed_plan().)
  int shots = 1;
  bool lines = false;  ///< transport push: flags are in the data (true) or one per chunk (false)
  /// 0: this library's kernel multiplies. N: cuBLASLt does, by the N-th algorithm that it proposes,
  /// or by the last if there are fewer; the prediction derives from this library's kernel, `gemm`.
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

/// The most CTAs of the kernel that sums: one per SM that the GEMM uses.
int reduce_ctas(const UnfusedSumWay&);

/// The schedule of the kernel that sums.
schedule::ReduceRows reduce_rows_schedule(const Problem&, const UnfusedSumWay&, int rank);

/// Transport push: the collective's call, whose input is the rank's partial; and the collective's
/// plan. All ranks must pass equal CollectiveMachines.
CollectiveCall pushed_sum(const Problem&, int rank);
CollectivePlan pushed_plan(const UnfusedSumWay&, const CollectiveCall&, CollectiveMachine);

/// Bytes that a rank's partial takes in a slot. Pushed data follows it.
std::int64_t partial_bytes(const Problem&);

/// Bytes per slot on each rank that calls of up to the problem's m rows need: first for data; then,
/// beside the slot, for words that carry their call's number.
std::int64_t gemm_reduce_staging_bytes(const Problem&);
std::int64_t gemm_reduce_line_bytes(const Problem&);

}  // namespace tilelace::plan
