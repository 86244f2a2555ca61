// SPDX-License-Identifier: Apache-2.0
// gemm_ar on GPUs whose ranks keep their partials, and sums are made of whole tiles by the switch
// or by whoever pulls them: which product, and what the slot has room for.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/gemm/gemm_plan.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// Tiles go to the own slot. Transport pull: in one shot every rank sums all of each tile for
/// itself, in two an equal share for all. Transport multimem: the switch sums such shares.
struct KeptPartialsWay {
  GemmPlan gemm;
  /// Where results are in memory that all ranks reach a call takes two, straight to them: between
  /// two ranks that moves as much as one shot and leaves each half of the adding (decision 0017).
  int shots = 2;
  bool by_switch = false;
  double predicted_us = 0;
};

/// Of workers.
int tiles_of(const KeptPartialsWay&, const Problem&);

/// All legal plans of transport pull for a problem of Op::gemm_ar, fastest prediction first. In one
/// shot between two ranks only: as much then travels.
/// Errors: usage (not a gemm_ar, n or k not a multiple of 8, no rows).
std::vector<KeptPartialsWay> gemm_sums_candidates(const Problem&, const GemmMachine& = {});
/// The same of transport multimem.
std::vector<KeptPartialsWay> gemm_multimem_candidates(const Problem&, const GemmMachine& = {});

/// Bytes of one slot on each rank, whatever the plan: partials, which sums take the place of.
std::int64_t gemm_sums_staging_bytes(const Problem&);
/// Counts beside each slot, whatever the plan.
std::int64_t gemm_sums_counts(const Problem&, int architecture = 0);

}  // namespace tilelace::plan
