// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "schedule/shared_parts.h"

namespace tilelace::cuda {

/// Tiles of a gemm_ar that peers finish: by which flags they are known, where they come, and where
/// they are wanted.
struct SharedResults {
  schedule::ShareFlags flags;
  schedule::PartShape shape;
  std::size_t results = 0;   ///< offset of the slot's results, [m, n]
  std::byte* out = nullptr;  ///< likewise
};

}  // namespace tilelace::cuda
