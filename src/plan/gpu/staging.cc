// SPDX-License-Identifier: Apache-2.0
#include "plan/gpu/staging.h"

#include <utility>

#include "plan/gpu/planners.h"
#include "plan/ways/copied_partials_way.h"

namespace tilelace::plan {

SlotNeeds slot_needs(const Problem& p, int architecture, bool copied) {
  return planner_of(p.op).staging(p, architecture, copied).needs;
}

void tell_staging(const Problem& p, int architecture, Plan& plan) {
  Staging told = planner_of(p.op).staging(p, architecture, copies_partials(plan.op, plan.path));
  const SlotNeeds& needs = told.needs;
  plan.staging_bytes =
      static_cast<std::int64_t>((needs.flags + needs.counts) * 4 + needs.bytes + needs.lines);
  plan.staging_formula = std::move(told.formula);
}

}  // namespace tilelace::plan
