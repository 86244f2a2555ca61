// SPDX-License-Identifier: Apache-2.0
// Plans of gemm_ar on GPUs where ranks keep their partials: whole tiles are summed by the NVLink
// switch, or by ranks that pull them. Also the bytes and counters that the partials need.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/gemm/gemm_plan.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// A rank stores its tiles in its own slot. Transport pull, one-shot: every rank sums each whole
/// tile for itself. Transport pull, two-shot: each rank sums an equal part of each tile for all
/// ranks. Transport multimem: as two-shot, but the switch sums the parts.
struct KeptPartialsWay {
  GemmPlan gemm;
  /// Even a one-shot plan runs two-shot if all ranks can store sums in the peers' results. On two
  /// ranks, two-shot moves as many bytes as one-shot, with half of the additions (decision 0017).
  int shots = 2;
  bool by_switch = false;
  double predicted_us = 0;
};

/// Number of tiles. Each is computed by one worker (a cluster).
int tiles_of(const KeptPartialsWay&, const Problem&);

/// All possible plans of transport pull for a problem of Op::gemm_ar, fastest prediction first.
/// One-shot plans are for up to two ranks, where they move no more bytes than two-shot. Errors:
/// usage (not a gemm_ar, n or k not a multiple of 8, no rows).
std::vector<KeptPartialsWay> gemm_sums_candidates(const Problem&, const GemmMachine& = {});
/// The same for transport multimem.
std::vector<KeptPartialsWay> gemm_multimem_candidates(const Problem&, const GemmMachine& = {});

/// Bytes per slot on each rank for partials, which the sums replace; enough for every plan.
std::int64_t gemm_sums_staging_bytes(const Problem&);
/// Number of counters (schedule/tile_sums.h) beside each slot, enough for every plan.
std::int64_t gemm_sums_counts(const Problem&, int architecture = 0);

}  // namespace tilelace::plan
