// SPDX-License-Identifier: Apache-2.0
// Plans of GPU ranks.
#pragma once
#include "plan/gemm/gemm_plan.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// make_plan() for GPU ranks. The problem must be valid. Errors: usage.
Plan make_cuda_plan(const Problem&, const Machine&, const PlanOptions&);

/// The fastest predicted plan for the GEMM product_of(problem, product, problem.m) alone. m > 0.
GemmPlan gemm_alone(const Problem&, std::size_t product, const Machine&);

}  // namespace tilelace::plan
