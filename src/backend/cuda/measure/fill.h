// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "tilelace/dtype.h"

namespace tilelace::cuda::measure {

/// Fills with normal variates (mean 0, variance 1) in bf16 or fp16, hashed from seed and position.
/// `data` points to element `first` of a larger tensor. Asynchronous.
void fill_normal(void* data, std::size_t elements, DType, std::uint64_t seed, cudaStream_t,
                 std::size_t first = 0);

}  // namespace tilelace::cuda::measure
