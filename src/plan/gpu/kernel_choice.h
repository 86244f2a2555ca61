// SPDX-License-Identifier: Apache-2.0
// What the kernels of a call on GPU ranks are launched with: the planner's own candidate, whole,
// inside the Plan that tells of it. Nothing is made back from the Plan's words.
#pragma once
#include <variant>

#include "plan/ways/ag_gemm_way.h"
#include "plan/ways/gemm_ar_way.h"
#include "plan/ways/gemm_rs_way.h"
#include "plan/ways/handed_partials_way.h"
#include "plan/ways/kept_partials_way.h"
#include "plan/ways/unfused_sum_way.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// The ways that calls go on GPU ranks.
using KernelWay = std::variant<AgGemmWay, GemmRsWay, GemmArWay, KeptPartialsWay, UnfusedSumWay,
                               HandedPartialsWay>;

struct KernelChoice {
  KernelWay way;
  int grid = 0;  ///< CTAs of the widest weight's kernel
};

/// The plan of a way: its words, and itself. `grid`: 0: as the way has it.
Plan plan_of(const Problem&, KernelWay, int grid = 0);

/// Path, route, transport and cut of a way, into a plan's words.
void tell_way(const KernelWay&, Plan&);

/// Of any way.
const GemmPlan& gemm_of(const KernelWay&);
double predicted_us_of(const KernelWay&);

/// Whether a way is taken where nobody asks for it: not rows that are pulled, which have never been
/// ahead, nor sums as others make them, whose bits are not those of other ways.
bool is_taken_unasked(const KernelWay&);

/// The way of a plan, where it is of this kind; else null.
template <class Way>
const Way* way_if(const Plan& plan) {
  return plan.kernel == nullptr ? nullptr : std::get_if<Way>(&plan.kernel->way);
}

/// "c256 split 0 group 8 early grid 132".
std::ostream& operator<<(std::ostream&, const KernelChoice&);

}  // namespace tilelace::plan
