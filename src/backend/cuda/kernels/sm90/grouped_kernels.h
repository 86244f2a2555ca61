// SPDX-License-Identifier: Apache-2.0
// The compiled kernels of the grouped product.
#pragma once
#include "backend/cuda/kernels/sm90/grouped.h"
#include "tilelace/dtype.h"

namespace tilelace::cuda {

struct GroupedEntry {
  const void* kernel = nullptr;  ///< takes GroupedParams; null: none for this type or shape
  int shared_bytes = 0;
};
/// The kernel of a shape in plan::kSm90GroupedShapes.
GroupedEntry grouped_entry(DType, bool gated, const plan::GroupedShape&);

}  // namespace tilelace::cuda
