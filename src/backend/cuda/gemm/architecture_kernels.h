// SPDX-License-Identifier: Apache-2.0
// Where the kernels of each architecture are found, by tile and element type.
#pragma once
#include <span>
#include <string_view>

#include "backend/cuda/kernels/gemm_sums_table.h"
#include "backend/cuda/kernels/gemm_table.h"

namespace tilelace::cuda {

struct ArchitectureKernels {
  using List = std::span<const GemmKernel> (*)();

  std::string_view architecture;  ///< its name in core/architecture.h
  std::span<const List> lists;    ///< together: each tile of its plans, for each type of GPUs
  // As gemm_table.h and gemm_sums_table.h have them; null: not made.
  const void* (*sharing)(std::string_view tile, DType);
  const void* (*pairs)(std::string_view tile, DType);
  GatedKernels (*gated)(std::string_view tile, DType);
  SumsKernels (*sums)(std::string_view tile, DType);

  /// Of its lists, or null. The function is, too, where this build has none.
  [[nodiscard]] const GemmKernel* find(std::string_view tile, DType) const;
};

/// The row of an architecture: a number of core/architecture.h.
const ArchitectureKernels& kernels_of(int architecture);

/// Whether each tile that is planned with has its kernels. Error: system.
void require_kernels(int architecture);

}  // namespace tilelace::cuda
