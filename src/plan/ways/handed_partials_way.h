// SPDX-License-Identifier: Apache-2.0
// gemm_rs on GPUs in the ways that others take: partials are copied to their owner shard by shard,
// added in the owner's memory, or go round a ring. Only where they are asked for.
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
  GemmPlan gemm;  ///< copied: of as many rows as the largest shard has, one launch a shard
  HandWay way = HandWay::copied;
  std::int64_t chunk_rows = 1;  ///< rows that a CTA handles at a time, behind one flag
  double predicted_us = 0;
};

/// Of workers, of one launch.
int tiles_of(const HandedPartialsWay&, const Problem&);

/// How the public plan says a way: medium push, unfused add, unfused store over the ring.
Path path_of(HandWay);
RouteKind route_of(HandWay);
Transport transport_of(HandWay);
/// "copied", "added", "ring".
std::string_view name_of(HandWay);

/// The way that these options ask for, if any. Errors: usage (not of a gemm_rs, or options that do
/// not go together).
std::optional<HandWay> asked_way(const Problem&, const PlanOptions&);
/// The way of a plan of gemm_rs with these words, if it is one of these.
std::optional<HandWay> way_of(Op, Path, RouteKind, Transport);

/// All legal plans, fastest prediction first. Errors: usage (not a gemm_rs, too many ranks, n or k
/// not a multiple of 8, no rows).
std::vector<HandedPartialsWay> gemm_hand_candidates(const Problem&, HandWay,
                                                    const GemmMachine& = {});

/// The schedule of the kernel behind the product.
schedule::ReduceRows hand_rows_schedule(const Problem&, const HandedPartialsWay&, int rank);

/// How often a partial, or a sum of some, is rounded on its way at most.
int roundings_of(HandWay, int ranks);

/// Bytes of one slot on each rank, whatever the way: partials, and behind them what comes in.
std::int64_t gemm_hand_staging_bytes(const Problem&);
/// Bytes from one source's partial to the next one's in what copies bring.
std::int64_t copied_pitch(const Problem&);

}  // namespace tilelace::plan
