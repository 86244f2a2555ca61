// SPDX-License-Identifier: Apache-2.0
// gemm_rs and gemm_ar on path `unfused` of GPUs: a product into this rank's slot, then one kernel
// that adds up what lies in all slots.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "plan/gemm.h"
#include "schedule/reduce_rows.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

struct GemmReducePlan {
  GemmPlan gemm;
  /// pull: every rank pulls what it needs, gemm_ar all rows. store (gemm_ar): every rank pulls for
  /// its rows and stores their sum with all peers, which is less traffic and one more wait.
  Transport transport = Transport::pull;
  std::int64_t chunk_rows = 1;  ///< rows that a CTA sums at a time, behind one flag where shared
  double predicted_us = 0;
  bool wide = false;  ///< partials are fp32, else of the operands' type
};

/// As printed: "one shot, chunks of 2 rows, 132 CTAs; c256 workers 66 ...".
std::string describe(const GemmReducePlan&);
std::ostream& operator<<(std::ostream&, const GemmReducePlan&);

/// All legal plans for a problem of Op::gemm_rs or gemm_ar whose partials are of the operands' type
/// or, `wide`, of fp32, fastest prediction first. Errors: usage (another op, too many ranks, n or k
/// not a multiple of 8, no rows).
std::vector<GemmReducePlan> gemm_reduce_candidates(const Problem&, const GemmMachine& = {},
                                                   bool wide = false);

/// How long the sum takes when nothing else runs.
double reduce_us(const Problem&, Transport, bool wide = false);

/// Multiprocessors that the plan's kernels may fill.
int reduce_ctas(const GemmReducePlan&);

/// The schedule of the kernel that sums.
schedule::ReduceRows reduce_rows_schedule(const Problem&, const GemmReducePlan&, int rank);

/// Bytes of one slot that partials of this type take on each rank; of gemm_ar in fp32 with the sums
/// that owners share, which else go where partials were.
std::int64_t gemm_reduce_staging_bytes(const Problem&, DType partials);

}  // namespace tilelace::plan
