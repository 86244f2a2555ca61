// SPDX-License-Identifier: Apache-2.0
// gemm_ar on GPUs whose ranks keep their partials, and sums are made of whole tiles by the switch
// or by whoever pulls them: which product, and what the slot has room for.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "plan/gemm.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// Tiles go to the own slot. Transport pull: in one shot every rank sums all of each tile for
/// itself, in two an equal share for all. Transport multimem: the switch sums such shares.
struct GemmSumsPlan {
  GemmPlan gemm;
  int shots = 2;
  bool direct = false;  ///< in two: sums go straight to where peers want them, else by the slot
  bool by_switch = false;
  double predicted_us = 0;
};

/// As printed: "pull, one shot; p160 workers 66 ...".
std::string describe(const GemmSumsPlan&);
std::ostream& operator<<(std::ostream&, const GemmSumsPlan&);

/// All legal plans of transport pull for a problem of Op::gemm_ar, fastest prediction first; those
/// in two shots each direct and staged. In one shot between two ranks only: as much then travels.
/// Errors: usage (not a gemm_ar, n or k not a multiple of 8, no rows).
std::vector<GemmSumsPlan> gemm_sums_candidates(const Problem&, const GemmMachine& = {});
/// The same of transport multimem.
std::vector<GemmSumsPlan> gemm_multimem_candidates(const Problem&, const GemmMachine& = {});

/// The same where results are in memory that all ranks reach: two shots, straight to them. Between
/// two ranks that moves as much as one shot and leaves each half of the adding (decision 0017).
GemmSumsPlan directly(GemmSumsPlan);

/// Bytes of one slot on each rank, whatever the plan: partials, which sums take the place of.
std::int64_t gemm_sums_staging_bytes(const Problem&);
/// Counts beside each slot, whatever the plan.
std::int64_t gemm_sums_counts(const Problem&);

}  // namespace tilelace::plan
