// SPDX-License-Identifier: Apache-2.0
// gemm_ar on GPUs whose sums are made by the switch: which product, and what the slot has room for.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "plan/gemm.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// Tiles go to the own slot, the switch adds them up and stores with all (transport multimem).
struct GemmMultimemPlan {
  GemmPlan gemm;
  bool direct = false;    ///< sums go straight to where peers want them, else by the slot
  bool emulated = false;  ///< for checks: each rank does what the switch would
  double predicted_us = 0;
};

/// As printed: "multimem, direct; p160 workers 66 ...".
std::string describe(const GemmMultimemPlan&);
std::ostream& operator<<(std::ostream&, const GemmMultimemPlan&);

/// All legal plans for a problem of Op::gemm_ar, fastest prediction first, each direct and staged.
/// Errors: usage (not a gemm_ar, n or k not a multiple of 8, no rows).
std::vector<GemmMultimemPlan> gemm_multimem_candidates(const Problem&, const GemmMachine& = {},
                                                       bool emulated = false);

/// How often a rank's part is rounded before the last rounding: itself, and the sum where something
/// follows it.
int multimem_roundings(const Problem&);

/// Bytes of one slot on each rank, whatever the plan: partials, which sums take the place of.
std::int64_t gemm_multimem_staging_bytes(const Problem&);
/// Counts beside each slot, whatever the plan.
std::int64_t gemm_multimem_counts(const Problem&);

}  // namespace tilelace::plan
