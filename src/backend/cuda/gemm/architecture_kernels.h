// SPDX-License-Identifier: Apache-2.0
// Finds the kernels of each architecture by tile and element type.
#pragma once
#include <span>
#include <string_view>

#include "backend/cuda/kernels/gemm_kernels.h"

namespace tilelace::cuda {

struct ArchitectureKernels {
  std::string_view architecture;  ///< its name in core/architecture.h
  /// Kernels for each tile of its plans and each element type on GPUs.
  std::span<const GemmKernel> (*kernels)();

  /// The kernels of a tile; null: no such tile. Functions that the build lacks are null there.
  [[nodiscard]] const GemmKernel* find(std::string_view tile, DType) const;
};

/// The row of the architecture that has this number in core/architecture.h.
const ArchitectureKernels& kernels_of(int architecture);

/// Checks that each tile of the plans has kernels. Error: system.
void require_kernels(int architecture);

}  // namespace tilelace::cuda
