// SPDX-License-Identifier: Apache-2.0
// Plans of GPU ranks.
#pragma once
#include "plan/gemm/gemm_plan.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// make_plan where the machine is one of GPUs; the problem is well-formed. Errors: usage.
Plan make_cuda_plan(const Problem&, const Machine&, const PlanOptions&);

/// The fastest prediction for one product (product_of) on operands that are all there. m > 0.
GemmPlan gemm_alone(const Problem&, std::size_t product, const Machine&);

}  // namespace tilelace::plan
