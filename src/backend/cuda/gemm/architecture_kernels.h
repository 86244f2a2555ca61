// SPDX-License-Identifier: Apache-2.0
// Where the kernels of each architecture are found, by tile and element type.
#pragma once
#include <span>
#include <string_view>

#include "backend/cuda/kernels/gemm_kernels.h"

namespace tilelace::cuda {

struct ArchitectureKernels {
  std::string_view architecture;  ///< its name in core/architecture.h
  /// Each tile of its plans, for each type of GPUs.
  std::span<const GemmKernel> (*kernels)();

  /// Null: no such tile. Its functions are null, too, where this build has none.
  [[nodiscard]] const GemmKernel* find(std::string_view tile, DType) const;
};

/// The row of an architecture: a number of core/architecture.h.
const ArchitectureKernels& kernels_of(int architecture);

/// Whether each tile that is planned with has its kernels. Error: system.
void require_kernels(int architecture);

}  // namespace tilelace::cuda
