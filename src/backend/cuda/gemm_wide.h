// SPDX-License-Identifier: Apache-2.0
// A product that stays in fp32: what is added to others' later.
#pragma once
#include "backend/cuda/gemm.h"

namespace tilelace::cuda {

/// out[m, n] in fp32 = a[m, k] * weight[n, k]^T. Device pointers, 16-byte aligned, rows one after
/// the other. Asynchronous; may be captured; early weights as GemmCall. Errors: usage (misaligned
/// pointer, shape, a tile that is not made for it), system.
void launch_wide_gemm(const plan::GemmPlan& plan, const plan::GemmProblem& problem, const void* a,
                      const void* weight, void* out, const GemmScratch& scratch,
                      cudaStream_t stream);

}  // namespace tilelace::cuda
