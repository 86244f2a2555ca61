// SPDX-License-Identifier: Apache-2.0
// Plans of GPU ranks: the kernels' own candidates, as the public Plan says them.
#pragma once
#include "plan/ag_gemm.h"
#include "plan/gemm_ar.h"
#include "plan/gemm_hand.h"
#include "plan/gemm_reduce.h"
#include "plan/gemm_rs.h"
#include "plan/gemm_sums.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// make_plan where the machine is one of GPUs; the problem is well-formed. Errors: usage.
Plan make_cuda_plan(const Problem&, const Machine&, const PlanOptions&);

/// What the kernels of a plan by make_cuda_plan are launched with: of an ag_gemm; of a fused
/// gemm_rs or gemm_ar (staged); of an unfused gemm_rs or gemm_ar.
AgGemmPlan ag_gemm_plan_of(const Plan&);
GemmRsPlan gemm_rs_plan_of(const Plan&);
GemmArPlan gemm_ar_plan_of(const Plan&);
GemmReducePlan gemm_reduce_plan_of(const Plan&);
/// Of a gemm_rs whose plan is one of its other ways (way_of).
GemmHandPlan gemm_hand_plan_of(const Plan&);
/// Of a fused gemm_ar whose transport is pull or multimem (staged).
GemmSumsPlan gemm_sums_plan_of(const Plan&);
/// Whether a plan is one.
bool keeps_partials(const Plan&);

/// The fastest prediction for one product (product_of) on operands that are all there. m > 0.
GemmPlan gemm_alone(const Problem&, std::size_t product, const Machine&);

}  // namespace tilelace::plan
