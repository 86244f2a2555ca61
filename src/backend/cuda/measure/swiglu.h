// SPDX-License-Identifier: Apache-2.0
// The activation of an MLP as a separate kernel, which unfused MLPs run between their two
// GEMMs.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace tilelace::cuda::measure {

/// to[rows, cols] = silu(from[:, :cols]) * from[:, cols:], from [rows, 2 * cols], bf16; cols a
/// multiple of 8.
[[nodiscard]] cudaError_t enqueue_swiglu(const void* from, void* to, std::int64_t rows,
                                         std::int64_t cols, cudaStream_t stream);

}  // namespace tilelace::cuda::measure
