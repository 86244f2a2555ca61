// SPDX-License-Identifier: Apache-2.0
// gemm_rs on GPUs by a GEMM per shard, whose partial a copy engine takes to its owner under the
// next GEMM; then owners add. These plans are used only on request, as a comparison.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/gemm/gemm_plan.h"
#include "schedule/reduce_rows.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

struct CopiedPartialsWay {
  GemmPlan gemm;                ///< GEMM of the largest shard, launched once per shard
  std::int64_t chunk_rows = 1;  ///< rows that a CTA adds at a time
  double predicted_us = 0;
};

/// Number of tiles of one launch. Each is computed by one worker (a cluster).
int tiles_of(const CopiedPartialsWay&, const Problem&);

/// Whether a plan of this op with this path is a CopiedPartialsWay.
bool copies_partials(Op, std::optional<Path>);

/// All legal plans, fastest prediction first. Errors: usage (not a gemm_rs, too many ranks, n or k
/// not a multiple of 8, no rows).
std::vector<CopiedPartialsWay> copied_partials_candidates(const Problem&, const GemmMachine& = {});

/// The schedule of the kernel that runs after the GEMMs and copies.
schedule::ReduceRows copied_rows_schedule(const Problem&, const CopiedPartialsWay&, int rank);

/// Bytes per slot on each rank for own and arriving partials.
std::int64_t copied_staging_bytes(const Problem&);
/// Bytes from one source's partial to the next source's partial in a slot.
std::int64_t copied_pitch(const Problem&);

}  // namespace tilelace::plan
