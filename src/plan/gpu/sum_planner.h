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

/// Whether the options allow fused plans. `transport_fits`: some have the transport asked for.
bool may_fuse(const PlanOptions&, bool transport_fits);

/// The plan of the candidate with the fastest prediction, among `fused` and the unfused candidates
/// that the options allow. `expected`: options that the error proposes if there is no candidate.
/// Errors: usage.
Plan make_sum_plan(const Problem&, const Machine&, const PlanOptions&, std::vector<KernelWay> fused,
                   std::string_view expected);

/// The staging of a sum. Its bytes are the larger of those of fused plans (`in_tiles`) and unfused
/// ones (`behind`); its words with a number are those of a pushed sum; the rest is as given. Of the
/// text that says so, `and_what` follows "partials in whole tiles" and `end` the unfused part.
Staging sum_staging(const Problem&, SlotNeeds, std::int64_t in_tiles, std::int64_t behind,
                    std::string_view and_what, std::string_view end);

}  // namespace tilelace::plan
