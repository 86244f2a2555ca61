// SPDX-License-Identifier: Apache-2.0
// Staging that an op's calls need on GPU ranks, enough for every kind of plan (those of `hands`
// aside). Both Plan and the allocation take it from here.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>

#include "tilelace/plan.h"

namespace tilelace::plan {

struct SlotNeeds {
  std::size_t flags = 0, bytes = 0;
  std::size_t counts = 0;  ///< words that ranks add to, beside the slot (schedule/tile_sums.h)
  std::size_t lines = 0;   ///< bytes, beside the slot, of words that carry their call's number
  [[nodiscard]] SlotNeeds with(const SlotNeeds& other) const {
    return {std::max(flags, other.flags), std::max(bytes, other.bytes),
            std::max(counts, other.counts), std::max(lines, other.lines)};
  }
  bool operator==(const SlotNeeds&) const = default;
};

struct Staging {
  SlotNeeds needs;
  std::string formula;  ///< how the bytes were computed
};

/// What calls with at most the problem's m rows need on an architecture. `hands`: also for gemm_rs
/// plans that are used only when asked for (plan/ways/handed_partials_way.h). Errors: usage.
SlotNeeds slot_needs(const Problem&, int architecture, bool hands);

/// Sets the plan's staging_bytes and staging_formula.
void tell_staging(const Problem&, int architecture, Plan&);

}  // namespace tilelace::plan
