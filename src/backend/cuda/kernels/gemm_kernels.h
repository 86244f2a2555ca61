// SPDX-License-Identifier: Apache-2.0
// The table of compiled GEMM kernels, for the host.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/kernels/token_slices.h"
#include "plan/gemm_tiles.h"
#include "tilelace/dtype.h"

namespace tilelace::cuda {

/// The kernels that a tile can have. The name beside a kernel is its policy in kernels/ops.
enum class GemmUse : std::uint8_t {
  alone,          ///< Gemm
  gated,          ///< GatedGemm
  ag_gemm,        ///< AgGemm
  gated_ag_gemm,  ///< GatedAgGemm
  gemm_rs,        ///< GemmRs
  gemm_rs_pairs,  ///< GemmRsPairs
  gemm_ar,        ///< GemmAr
  kept_by_switch,
  kept_by_peers,
};
inline constexpr std::size_t kGemmUses = 9;

/// One compiled kernel, as an object file lists it.
struct KernelEntry {
  GemmUse use;
  int tile;  ///< index in plan::kGemmTiles
  DType dtype;
  const void* function;
};

using KernelList = std::vector<KernelEntry>;

/// A tile's kernels in one element type.
struct GemmKernel {
  plan::GemmTile tile;
  DType dtype{};
  int given_groups = 0;  ///< number of parts of a CTA's partial for a peer; each part has a flag
  int given_pieces = 0;  ///< number of pieces of one part
  int piece_bytes = 0;   ///< bytes of a piece
  int stage_bytes = 0;   ///< bytes of a stage of the ring
  int threads = 0;
  int shared_bytes = 0;
  int col_slice = 0;       ///< columns of a tile that one CTA loads
  int row_slice = 0;       ///< rows of a tile that one CTA loads
  TokenSlices tokens{};    ///< slices of a tile's tokens
  int partial_floats = 0;  ///< fp32 values of a CTA's partial, in tiles whose k-steps are shared
  std::array<const void*, kGemmUses> functions{};

  /// The kernel for a use; null: no such kernel, or not in this build (TILELACE_TILES).
  [[nodiscard]] const void* of(GemmUse use) const {
    return functions[static_cast<std::size_t>(use)];
  }
};

/// All kernels of sm_90a. Each tile of plan::kGemmTiles has a row per element type on GPUs.
std::span<const GemmKernel> sm90_kernels();

}  // namespace tilelace::cuda
