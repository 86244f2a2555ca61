// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm_wide.h"

#include "backend/cuda/gemm_launch.h"

namespace tilelace::cuda {

void launch_wide_gemm(const plan::GemmPlan& plan, const plan::GemmProblem& problem, const void* a,
                      const void* weight, void* out, const GemmScratch& scratch,
                      cudaStream_t stream) {
  const GemmKernel& kernel = kernel_of(plan, problem.dtype);
  const void* const function = gemm_wide(kernel.tile.name, problem.dtype).function;
  require(function != nullptr && !problem.gated,
          "gemm: plan {}, expected a tile that leaves fp32, and one product", plan::describe(plan));
  GemmWideParams params{};
  fill_operands(params, kernel, problem, {a, weight, nullptr, out}, scratch);
  fill_tokens(params, kernel, problem, a);
  params.wide_out = static_cast<float*>(out);
  params.m = static_cast<int>(problem.m);
  params.work = plan::work_of(plan, problem);
  const GemmGrid grid = fill_grid(params, params.work, kernel, plan);
  launch_gemm(kernel, function, &params, grid, stream, plan.early_weights);
}

}  // namespace tilelace::cuda
