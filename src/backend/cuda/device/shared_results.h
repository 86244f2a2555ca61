// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "schedule/shared_parts.h"

namespace tilelace::cuda {

/// The tiles of a gemm_ar that peers finish. They arrive in this rank's slot, at `results`, and are
/// copied from there to `out`.
struct SharedResults {
  schedule::ShareFlags flags;
  schedule::PartShape shape;
  std::size_t results = 0;   ///< offset of the slot's results, [m, n]
  std::byte* out = nullptr;  ///< where the tiles are copied to
};

}  // namespace tilelace::cuda
