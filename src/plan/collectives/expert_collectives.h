// SPDX-License-Identifier: Apache-2.0
// The collectives of a layer of experts, as its halves make them, for whoever plans or prices them.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "plan/collectives/collective.h"
#include "tilelace/moe.h"

namespace tilelace::plan {

struct ExpertCollective {
  std::string_view what;  ///< what travels
  CollectiveCall call;
};

/// Of the first half, in order: none of replicated tokens. m: tokens of all ranks, the remainder on
/// the first ones.
std::vector<ExpertCollective> expert_gathers(const MoeLayer&, std::int64_t m, int ranks);
/// Of the second half: reduce_scatter or all_reduce.
ExpertCollective expert_sum(const MoeLayer&, std::int64_t m, int ranks, Collective);

/// Bytes that a rank sends to its peers.
double sent_bytes(const CollectiveCall&, const CollectivePlan&, int rank);

}  // namespace tilelace::plan
