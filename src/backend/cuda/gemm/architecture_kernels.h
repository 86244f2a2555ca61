// SPDX-License-Identifier: Apache-2.0
// Finds the kernels of each architecture by tile and element type.
#pragma once
#include <span>
#include <string_view>

#include "backend/cuda/kernels/gemm_kernels.h"

namespace tilelace::cuda {

struct ArchitectureKernels {
  std::string_view architecture;  ///< the architecture's name in core/architecture.h
  /// Returns one entry for each tile of the architecture and each element type on GPUs.
  std::span<const GemmKernel> (*kernels)();

  /// The entry of a tile; null: no such tile. In an entry, kernels that this build lacks are null.
  [[nodiscard]] const GemmKernel* find(std::string_view tile, DType) const;
};

/// The kernels of the architecture that is row `architecture` of the table in core/architecture.h.
const ArchitectureKernels& kernels_of(int architecture);

/// Checks that each tile that plans may choose has an entry of the same shape. Error: system.
void require_kernels(int architecture);

}  // namespace tilelace::cuda
