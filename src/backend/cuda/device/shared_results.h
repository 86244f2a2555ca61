// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "schedule/shared_parts.h"

namespace tilelace::cuda {

/// Tiles of a gemm_ar that peers finish: their flags and shape, where they arrive in the slot, and
/// the memory to which they are copied from the slot.
struct SharedResults {
  schedule::ShareFlags flags;
  schedule::PartShape shape;
  std::size_t results = 0;   ///< offset of the slot's results, [m, n]
  std::byte* out = nullptr;  ///< where the tiles are copied to
};

}  // namespace tilelace::cuda
