// SPDX-License-Identifier: Apache-2.0
// What all kernels made of the GEMM share on the host: their parameters and their launch.
#pragma once
#include <algorithm>

#include "backend/cuda/gemm.h"
#include "backend/cuda/tensor_map.h"
#include "core/check.h"

namespace tilelace::cuda {

/// Error: usage.
void require_aligned(const void* p, const char* name);

/// Operands, bias and activation. Errors: usage (misaligned pointer), system.
void fill_operands(GemmCommon&, const GemmKernel&, const plan::GemmProblem&, const GemmTensors&,
                   const GemmScratch&);

/// Where results go: a matrix of which nothing beyond its rows is written.
void fill_outputs(CUtensorMap& out, CUtensorMap& rest, const GemmKernel&, TensorMapSource, DType);

/// Worker numbers of a grid that numbers them by neighbours, or null.
const std::uint16_t* places_of(const plan::GemmPlan&, const GemmKernel&, int workers);

/// Workers of the launch; returns its CTAs. Error: usage (too many for the scratch memory).
template <class Work>
int fill_grid(GemmCommon& common, Work& work, const GemmKernel& kernel,
              const plan::GemmPlan& plan) {
  if (plan.split_tiles == 0) work.workers = std::min(plan.workers, work.order.tiles());
  common.places = places_of(plan, kernel, work.workers);
  const int ctas = work.workers * kernel.tile.cluster();
  require(plan.split_tiles == 0 || ctas <= common.scratch.ctas,
          "gemm: {} CTAs, expected at most {}", ctas, common.scratch.ctas);
  return ctas;
}

/// Asynchronous; may be captured. `early`: begins while the kernel before it ends. Error: system.
void launch_gemm(const GemmKernel&, const void* function, const void* params, int ctas,
                 cudaStream_t, bool early);

}  // namespace tilelace::cuda
