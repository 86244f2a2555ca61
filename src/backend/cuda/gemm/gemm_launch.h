// SPDX-License-Identifier: Apache-2.0
// Host code that all GEMM kernels share: their parameters and their launch.
#pragma once
#include <algorithm>

#include "backend/cuda/gemm/gemm_call.h"
#include "backend/cuda/gemm/tensor_map.h"
#include "core/check.h"
#include "plan/gemm/share.h"

namespace tilelace::cuda {

/// Error: usage (the address is not a multiple of 16).
void require_aligned(const void* p, const char* name);

/// Fills in operands, bias and activation. In a gated problem they are the gate's operands and
/// bias. Errors: usage (misaligned pointer), system.
void fill_operands(GemmOperands&, const GemmKernel&, const plan::GemmProblem&, const GemmTensors&,
                   const GemmScratch&);

/// Map of a partial last slice of tokens, else empty. `of_tiles`: number of tokens in the section.
CUtensorMap tail_map(const GemmKernel&, TensorMapSource tokens, std::int64_t of_tiles, DType);
/// Fills in the number of tokens and their tail_map, which a GEMM without communication needs.
void fill_tokens(GemmParams&, const GemmKernel&, const plan::GemmProblem&, const void* a);

/// Fills in the map and bias of a gated problem's up weight. Errors: those of fill_operands.
void fill_up(UpWeight&, const GemmKernel&, const plan::GemmProblem&, const GemmTensors&);

/// Fills in tensor maps of the result, which drop stores beyond its last row. `remainder` is for a
/// tile's columns beyond a multiple of 64. `gated`: a tile gives results for half its width.
void fill_outputs(CUtensorMap& out, CUtensorMap& remainder, const GemmKernel&, TensorMapSource,
                  DType, bool gated = false);

/// Worker number of each cluster, if the plan takes them from neighbour_places(); else null.
const std::uint16_t* places_of(const plan::GemmPlan&, const GemmKernel&, int workers);

/// Sets work.workers and common.places; returns the grid. Error: usage (too many CTAs for scratch).
template <class Work>
GemmGrid fill_grid(GemmOperands& common, Work& work, const GemmKernel& kernel,
                   const plan::GemmPlan& plan) {
  if (plan.split_tiles == 0) work.workers = std::min(plan.workers, work.order.tiles());
  int cluster = kernel.tile.cluster();
  if (plan.share > 0 && cluster == 1) {
    if (plan.split_tiles == 0) work.workers = plan::standing_ctas(work.workers, plan.share);
    if (plan::stands_in_pairs(work.workers)) cluster = 2;
  }
  common.places = places_of(plan, kernel, work.workers);
  const int ctas = work.workers * kernel.tile.cluster();
  require(plan.split_tiles == 0 || ctas <= common.scratch.ctas,
          "gemm: CTAs of a plan with split: got {}, expected at most {}", ctas,
          common.scratch.ctas);
  return {ctas, cluster};
}

/// Asynchronous; may be captured. `early`: programmatic dependent launch. Error: system.
void launch_gemm(const GemmKernel&, const void* function, const void* params, GemmGrid,
                 cudaStream_t, bool early);

}  // namespace tilelace::cuda
