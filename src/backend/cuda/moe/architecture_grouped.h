// SPDX-License-Identifier: Apache-2.0
// Finds how each architecture runs grouped_gemm. Its tiles are those of plan::GroupedPlans.
#pragma once
#include <string_view>

#include "backend/cuda/moe/moe_gpu.h"

namespace tilelace::cuda {

struct ArchitectureGrouped {
  std::string_view architecture;  ///< the architecture's name in core/architecture.h
  /// Enqueues a call with rows, whose arguments were checked, in tiles of one of the architecture's
  /// shapes. Null: the architecture has no such kernels.
  void (*launch)(const GroupedGemm&, const plan::GroupedShape&, cudaStream_t) = nullptr;
  void (*load)() = nullptr;  ///< loads the kernels on the current device
};

/// The entry of the architecture that is row `architecture` of the table in core/architecture.h.
/// Errors: usage (it has no kernels for experts), system (plans have tiles, and this build nothing
/// that runs them).
const ArchitectureGrouped& grouped_of(int architecture);

}  // namespace tilelace::cuda
