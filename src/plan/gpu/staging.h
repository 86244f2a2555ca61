// SPDX-License-Identifier: Apache-2.0
// How much staging an op's calls need on GPU ranks. It is enough for every kind of plan (for
// CopiedPartialsWay only if `copied`). Both the Plan and the allocation use these sizes.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>

#include "tilelace/plan.h"

namespace tilelace::plan {

struct SlotNeeds {
  std::size_t flags = 0, bytes = 0;
  std::size_t counts = 0;  ///< words to which ranks add, beside the slot (schedule/tile_sums.h)
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

/// What calls of up to the problem's m rows need on an architecture. `copied`: calls of gemm_rs may
/// use CopiedPartialsWay, which is used only if an option asks for it. Errors: usage.
SlotNeeds slot_needs(const Problem&, int architecture, bool copied);

/// Sets the plan's staging_bytes and staging_formula.
void tell_staging(const Problem&, int architecture, Plan&);

}  // namespace tilelace::plan
