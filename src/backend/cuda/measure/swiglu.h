// SPDX-License-Identifier: Apache-2.0
// The activation of an MLP as a separate kernel, which unfused MLPs run between their two
// GEMMs.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace tilelace::cuda::measure {

/// to = silu(from[:, :cols]) * from[:, cols:]. `to` is [rows, cols] and `from` is [rows, 2 * cols],
/// both in bf16; cols is a multiple of 8.
[[nodiscard]] cudaError_t enqueue_swiglu(const void* from, void* to, std::int64_t rows,
                                         std::int64_t cols, cudaStream_t stream);

}  // namespace tilelace::cuda::measure
