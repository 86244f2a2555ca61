// SPDX-License-Identifier: Apache-2.0
// Parts that plans of gemm_rs and gemm_ar on GPU ranks share. Plans are fused if that was measured
// to be faster, else the sum follows the GEMM.
#pragma once
#include <string_view>
#include <vector>

#include "plan/gpu/kernel_choice.h"
#include "plan/gpu/staging.h"

namespace tilelace::plan {

/// Rejects options that no sum has. Errors: usage.
void require_sum_options(const Problem&, const PlanOptions&);

/// Whether the options allow fused calls.
bool may_fuse(const PlanOptions&, bool transport_fits);

/// The plan of the fastest candidate. Candidates are these fused ones and the unfused ones that the
/// options allow. `expected`: what the error tells the user to ask for if there is none. Errors:
/// usage.
Plan make_sum_plan(const Problem&, const Machine&, const PlanOptions&, std::vector<KernelWay> fused,
                   std::string_view expected);

/// The staging of a sum. Its bytes are the larger of `in_tiles` (fused) and `behind` (unfused), its
/// lines are those of a pushed sum; all else is as given. Formula: "flags ... + max(partials in
/// whole tiles{and_what} ..., behind the product ...{end}) + lines ...".
Staging sum_staging(const Problem&, SlotNeeds, std::int64_t in_tiles, std::int64_t behind,
                    std::string_view and_what, std::string_view end);

}  // namespace tilelace::plan
