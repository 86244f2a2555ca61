// SPDX-License-Identifier: Apache-2.0
// gemm_rs and gemm_ar on path `unfused` of GPUs: a product into this rank's slot, then one kernel
// that adds up what lies in all slots.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "plan/gemm.h"
#include "schedule/push_rows.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// What counts where partials are pushed.
struct PushPlan {
  int shots = 1;      ///< gemm_ar: 1: everyone sums all rows; 2: its own, and sends the sum to all
  int rounds = 1;     ///< chunks of a CTA: with two the second shot begins under the first
  int threads = 512;  ///< of a CTA that move data
  bool direct = false;  ///< two shots: sums go straight to where peers want them
};

struct GemmReducePlan {
  GemmPlan gemm;
  /// pull: every rank pulls what it needs, gemm_ar all rows. store (gemm_ar): every rank pulls for
  /// its rows and stores their sum with all peers, which is less traffic and one more wait. push:
  /// every rank sends its partial to those who sum.
  Transport transport = Transport::pull;
  std::int64_t chunk_rows = 1;  ///< rows that a CTA sums at a time, behind one flag where shared
  double predicted_us = 0;
  PushPlan push{};    ///< of transport push, whose chunks are not of rows
  bool wide = false;  ///< partials are fp32, else of the operands' type; not of transport push
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
double reduce_us(const Problem&, const GemmReducePlan&);

/// Multiprocessors that the plan's kernels may fill.
int reduce_ctas(const GemmReducePlan&);

/// The schedule of the kernel that sums.
schedule::ReduceRows reduce_rows_schedule(const Problem&, const GemmReducePlan&, int rank);

/// Of transport push: the kernel on `ctas` multiprocessors.
schedule::PushRows push_rows_schedule(const Problem&, const PushPlan&, int rank, int ctas);

/// Bytes between what two sources push, one behind the other behind the own partial.
std::int64_t pushed_pitch(const Problem&, const PushPlan&);

/// Bytes of one slot that partials of this type take where they are pulled; of gemm_ar in fp32 with
/// the sums that owners share, which else go where partials were.
std::int64_t pulled_bytes(const Problem&, DType partials);

/// Bytes of one slot that calls up to the problem's m with partials of this type take on each rank.
std::int64_t gemm_reduce_staging_bytes(const Problem&, DType partials);

}  // namespace tilelace::plan
