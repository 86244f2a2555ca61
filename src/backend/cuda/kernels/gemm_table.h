// SPDX-License-Identifier: Apache-2.0
// The compiled GEMMs, as the host sees them.
#pragma once
#include <span>
#include <string_view>

#include "backend/cuda/kernels/gemm_params.h"
#include "backend/cuda/kernels/gemm_slices.h"
#include "plan/gemm_tiles.h"
#include "tilelace/dtype.h"

namespace tilelace::cuda {

struct GemmKernel {
  plan::GemmTile tile;
  DType dtype;
  const void* function;   ///< takes GemmParams; null: not in this build (TILELACE_TILES)
  const void* gathering;  ///< takes AgGemmParams, or AgGemmAcrossParams; null: not made
  const void* reducing;   ///< takes GemmRsParams, or GemmRsAcrossParams; null: not made
  int given_groups;       ///< parts of a partial that one CTA of `reducing` gives, a flag each
  int given_pieces;       ///< of a part
  int piece_bytes;        ///< of those
  int stage_bytes;        ///< of the ring
  int threads;
  int shared_bytes;
  int col_slice;       ///< columns of a tile that one CTA loads
  int row_slice;       ///< rows likewise
  TokenSlices tokens;  ///< of a tile
  int partial_floats;  ///< of one CTA
};

std::span<const GemmKernel> gemm_cooperative();
std::span<const GemmKernel> gemm_pingpong();
std::span<const GemmKernel> gemm_tall();
std::span<const GemmKernel> gemm_narrow();
std::span<const GemmKernel> gemm_swapped();
std::span<const GemmKernel> gemm_across();
std::span<const GemmKernel> gemm_tall_across();
std::span<const GemmKernel> gemm_pingpong_across();

/// The kernel of gemm_ar (takes GemmArParams) for this tile, or null.
const void* gemm_sharing(std::string_view tile, DType);

/// The kernel of gemm_rs whose shards come in pairs (takes GemmRsPairParams) for this tile, or
/// null.
const void* gemm_pairs(std::string_view tile, DType);

/// The kernels of gate and up in one for this tile, or null.
struct GatedKernels {
  const void* function = nullptr;   ///< takes GemmGatedParams
  const void* gathering = nullptr;  ///< takes AgGemmGatedParams
};
GatedKernels gemm_gated(std::string_view tile, DType);

}  // namespace tilelace::cuda
