// SPDX-License-Identifier: Apache-2.0
// The planner's own candidate, with the launch parameters of a GPU call's kernels. It is kept
// inside the Plan that describes it, so that launches parse nothing from the Plan's words.
#pragma once
#include <variant>

#include "plan/ways/ag_gemm_way.h"
#include "plan/ways/copied_partials_way.h"
#include "plan/ways/gemm_ar_way.h"
#include "plan/ways/gemm_rs_way.h"
#include "plan/ways/kept_partials_way.h"
#include "plan/ways/unfused_sum_way.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// A candidate of any op and path.
using KernelWay = std::variant<AgGemmWay, GemmRsWay, GemmArWay, KeptPartialsWay, UnfusedSumWay,
                               CopiedPartialsWay>;

struct KernelChoice {
  KernelWay way;
  int grid = 0;  ///< CTAs of the kernel for the widest weight
};

/// Makes the Plan of a candidate: the words that describe the candidate, and the candidate itself.
/// `grid`: CTAs of the candidate's kernel; 0: as many as the candidate needs.
Plan plan_of(const Problem&, KernelWay, int grid = 0);

/// Sets the plan's path, route, transport, chunk_rows and straddle to the candidate's.
void tell_way(const KernelWay&, Plan&);

/// The GEMM's plan, and the predicted time, of any candidate.
const GemmPlan& gemm_of(const KernelWay&);
double predicted_us_of(const KernelWay&);

/// The number (from 1) of the cuBLASLt algorithm that multiplies; 0: this library's kernel is used.
int cublas_of(const KernelWay&);
/// Whether two candidates multiply by the same kernel (the same tile or cuBLASLt algorithm).
bool multiply_alike(const KernelWay&, const KernelWay&);

/// Whether tuning times this candidate, and a table may choose it, if no option asks for it. Not an
/// ag_gemm that pulls rows (never fastest), or a CopiedPartialsWay (it needs more staging).
bool may_be_tuned(const KernelWay&);

/// The plan's candidate if it has this type; else null.
template <class Way>
const Way* way_if(const Plan& plan) {
  return plan.kernel == nullptr ? nullptr : std::get_if<Way>(&plan.kernel->way);
}

/// Prints, for example, "c256 split 0 group 8 early grid 132".
std::ostream& operator<<(std::ostream&, const KernelChoice&);

}  // namespace tilelace::plan
