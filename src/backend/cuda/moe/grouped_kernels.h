// SPDX-License-Identifier: Apache-2.0
// The compiled kernels of the grouped product (moe_gpu.h).
#pragma once
#include "backend/cuda/moe/grouped.h"
#include "backend/cuda/moe/moe_gpu.h"

namespace tilelace::cuda {

struct GroupedEntry {
  const void* kernel = nullptr;  ///< kernel that takes GroupedParams; null: none for this type
  int shared_bytes = 0;
};
GroupedEntry grouped_entry(DType, bool gated, GroupedTiling);

}  // namespace tilelace::cuda
