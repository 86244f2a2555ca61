// SPDX-License-Identifier: Apache-2.0
// Fused gemm_ar on GPUs: which product, in how many super-blocks.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "plan/gemm.h"
#include "schedule/gemm_reduce_index.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// Partial sums go to owners, finished tiles from owners to all, both straight into slots.
struct GemmArPlan {
  GemmPlan gemm;
  bool together = true;  ///< remote shards of a block are walked together
  int blocks = 1;        ///< the finished rows of one travel under the next one's product
  double predicted_us = 0;
};

/// As printed: "2 blocks; p160 workers 66 ...".
std::string describe(const GemmArPlan&);
std::ostream& operator<<(std::ostream&, const GemmArPlan&);

/// All legal plans for a problem of Op::gemm_ar, fastest prediction first; empty where no tile fits
/// the ranks. Errors: usage (not a gemm_ar, n or k not a multiple of 8, no rows).
std::vector<GemmArPlan> gemm_ar_candidates(const Problem&, const GemmMachine& = {});

/// Shards are whole tiles of the plan where m allows.
schedule::GemmReduce gemm_ar_schedule(const Problem&, const GemmArPlan&, int rank);

/// Bytes of one slot on each rank, whatever the plan.
std::int64_t gemm_ar_staging_bytes(const Problem&);

}  // namespace tilelace::plan
