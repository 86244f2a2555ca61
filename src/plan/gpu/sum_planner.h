// SPDX-License-Identifier: Apache-2.0
// What the planners of gemm_rs and gemm_ar on GPU ranks share. They choose, by predicted time,
// between fused plans and unfused plans, in which the sum follows the GEMM.
#pragma once
#include <string_view>
#include <vector>

#include "plan/gpu/kernel_choice.h"
#include "plan/gpu/staging.h"

namespace tilelace::plan {

/// Rejects options that no plan of this op can have. Errors: usage.
void require_sum_options(const Problem&, const PlanOptions&);

/// Whether the options allow fused plans. `transport_fits`: a fused plan has the wanted transport.
bool may_fuse(const PlanOptions&, bool transport_fits);

/// The plan of the candidate with the fastest prediction, among `fused` and the unfused candidates
/// that the options allow. `expected`: options that the error text proposes if there is no
/// candidate. Errors: usage.
Plan make_sum_plan(const Problem&, const Machine&, const PlanOptions&, std::vector<KernelWay> fused,
                   std::string_view expected);

/// The staging of a sum. Its bytes are the larger of what fused plans (`in_tiles`) and unfused
/// plans (`behind`) need, and its lines are those of a pushed sum. The rest is as given. The
/// formula has `and_what` after "partials in whole tiles", and `end` after what unfused plans need.
Staging sum_staging(const Problem&, SlotNeeds, std::int64_t in_tiles, std::int64_t behind,
                    std::string_view and_what, std::string_view end);

}  // namespace tilelace::plan
