// SPDX-License-Identifier: Apache-2.0
// Common parts of plans for sums on GPU ranks: fused where that was measured to be faster, else the
// GEMM and then the sum.
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

/// The fastest of these fused candidates and the unfused ones that the options allow. `expected`:
/// what the error tells the user to ask for if there is none. Errors: usage.
Plan make_sum_plan(const Problem&, const Machine&, const PlanOptions&, std::vector<KernelWay> fused,
                   std::string_view expected);

/// Bytes: the larger of `in_tiles` (fused) and `behind` (unfused); lines: those of a pushed sum;
/// others as given. Formula: "flags ... + max(partials in whole tiles{and_what} ..., behind the
/// product ...{end}) + lines ...".
Staging sum_staging(const Problem&, SlotNeeds, std::int64_t in_tiles, std::int64_t behind,
                    std::string_view and_what, std::string_view end);

}  // namespace tilelace::plan
