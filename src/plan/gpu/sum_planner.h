// SPDX-License-Identifier: Apache-2.0
// What plans of sums on GPU ranks have in common: fused where that has shown to be faster, else the
// product and the sum one after the other.
#pragma once
#include <string_view>
#include <vector>

#include "plan/gpu/kernel_choice.h"
#include "plan/gpu/staging.h"

namespace tilelace::plan {

/// Options that no sum meets. Errors: usage.
void require_sum_options(const Problem&, const PlanOptions&);

/// Whether options leave fused calls.
bool may_fuse(const PlanOptions&, bool transport_fits);

/// Of a sum with rows: the fastest of these fused ways and the unfused ones that options leave.
/// `expected`: what there is, where that is none. Errors: usage.
Plan make_sum_plan(const Problem&, const Machine&, const PlanOptions&, std::vector<KernelWay> fused,
                   std::string_view expected);

/// Bytes are the larger of those of whole tiles and those behind the product, lines those that are
/// pushed; the other needs are as given.
/// "flags ... + max(partials in whole tiles ..., behind the product ...) + lines ...".
Staging sum_staging(const Problem&, SlotNeeds, std::int64_t in_tiles, std::int64_t behind,
                    std::string_view and_what, std::string_view end);

}  // namespace tilelace::plan
