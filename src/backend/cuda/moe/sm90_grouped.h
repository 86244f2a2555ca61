// SPDX-License-Identifier: Apache-2.0
// How grouped_gemm runs on devices of sm_90a.
#pragma once
#include "backend/cuda/moe/moe_gpu.h"

namespace tilelace::cuda {

/// Enqueues a call with rows, whose arguments were checked. Errors: system.
void launch_sm90_grouped(const GroupedGemm&, const plan::GroupedShape&, cudaStream_t);
/// Loads all kernels. Error: system.
void load_sm90_grouped();

}  // namespace tilelace::cuda
