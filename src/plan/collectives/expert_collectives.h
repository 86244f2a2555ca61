// SPDX-License-Identifier: Apache-2.0
// The collectives of the two halves of a mixture-of-experts layer, for plans and predictions.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "plan/collectives/collective.h"
#include "tilelace/moe.h"

namespace tilelace::plan {

struct ExpertCollective {
  std::string_view what;  ///< name of the data that is sent
  CollectiveCall call;
};

/// The first half's collectives, in call order; none if tokens are replicated. The m tokens of all
/// ranks are split evenly over `ranks` ranks; the first m % `ranks` ranks have one token more.
std::vector<ExpertCollective> expert_gathers(const MoeLayer&, std::int64_t m, int ranks);
/// The second half's collective, of the given kind: reduce_scatter or all_reduce.
ExpertCollective expert_sum(const MoeLayer&, std::int64_t m, int ranks, Collective);

/// Bytes that a rank sends to its peers in a call with this plan.
double sent_bytes(const CollectiveCall&, const CollectivePlan&, int rank);

}  // namespace tilelace::plan
