// SPDX-License-Identifier: Apache-2.0
// gemm_rs on GPUs by methods of other libraries: partials are copied to their owner shard by shard,
// added in the owner's memory, or passed around a ring. These plans are used only on request.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/gemm/gemm_plan.h"
#include "schedule/hand_rows.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

using schedule::HandWay;

struct HandedPartialsWay {
  GemmPlan gemm;  ///< method `copied`: GEMM of the largest shard, launched once per shard
  HandWay way = HandWay::copied;
  std::int64_t chunk_rows = 1;  ///< rows that a CTA adds at a time; also rows per flag, if any
  double predicted_us = 0;
};

/// Number of tiles of one launch. Each is computed by one worker (a cluster).
int tiles_of(const HandedPartialsWay&, const Problem&);

/// Path, route and transport of a public plan with this method. `copied`: medium mesh push;
/// `added`: unfused mesh add; `ring`: unfused ring store.
Path path_of(HandWay);
RouteKind route_of(HandWay);
Transport transport_of(HandWay);
/// The method's name: "copied", "added" or "ring".
std::string_view name_of(HandWay);

/// The method that these options ask for, if any. Errors: usage (not a gemm_rs, or options that do
/// not go together).
std::optional<HandWay> asked_way(const Problem&, const PlanOptions&);
/// The method of a gemm_rs plan with these properties, if any.
std::optional<HandWay> way_of(Op, Path, RouteKind, Transport);

/// All legal plans, fastest prediction first. Errors: usage (not a gemm_rs, too many ranks, n or k
/// not a multiple of 8, no rows).
std::vector<HandedPartialsWay> gemm_hand_candidates(const Problem&, HandWay,
                                                    const GemmMachine& = {});

/// The schedule of the kernel that runs after the GEMM.
schedule::ReduceRows hand_rows_schedule(const Problem&, const HandedPartialsWay&, int rank);

/// The most roundings that a partial goes through on its way, alone and as a part of sums.
int roundings_of(HandWay, int ranks);

/// Bytes per slot on each rank for own and arriving partials, enough for every method.
std::int64_t gemm_hand_staging_bytes(const Problem&);
/// Method `copied`: bytes from one source's partial to the next source's partial in a slot.
std::int64_t copied_pitch(const Problem&);

}  // namespace tilelace::plan
