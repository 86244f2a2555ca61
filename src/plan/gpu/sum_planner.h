// SPDX-License-Identifier: Apache-2.0
// What the planners of gemm_rs and gemm_ar on GPU ranks share. They choose between fused plans and
// unfused ones, in which the sum follows the GEMM, by predicted time.
#pragma once
#include <string_view>
#include <vector>

#include "plan/gpu/kernel_choice.h"
#include "plan/gpu/staging.h"

namespace tilelace::plan {

/// Rejects options that no plan of a sum has. Errors: usage.
void require_sum_options(const Problem&, const PlanOptions&);

/// Whether the options allow fused plans. `transport_fits`: fused plans have the transport.
bool may_fuse(const PlanOptions&, bool transport_fits);

/// The plan of the candidate with the fastest prediction, among `fused` and the unfused candidates
/// that the options allow. `expected`: options that the error proposes if there is no candidate.
/// Errors: usage.
Plan make_sum_plan(const Problem&, const Machine&, const PlanOptions&, std::vector<KernelWay> fused,
                   std::string_view expected);

/// The staging of a sum: bytes are the larger of `in_tiles` (fused plans) and `behind` (unfused
/// plans), lines are those of a pushed sum, all else is as given. The formula is "flags ... +
/// max(partials in whole tiles{and_what} ..., behind the product ...{end}) + lines ...".
Staging sum_staging(const Problem&, SlotNeeds, std::int64_t in_tiles, std::int64_t behind,
                    std::string_view and_what, std::string_view end);

}  // namespace tilelace::plan
