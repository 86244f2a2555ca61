// SPDX-License-Identifier: Apache-2.0
// Brings the kernels of all objects together. CMake says which lists of them there are:
// TILELACE_KERNEL_LISTS is `a,b`, TILELACE_KERNEL_LIST_CALLS is `a(),b()`.
#include <iterator>
#include <utility>
#include <vector>

#include "backend/cuda/base/element_types.h"
#include "backend/cuda/kernels/gemm_kernels.h"
#include "backend/cuda/kernels/sm90/shape.h"
#include "plan/gemm/gemm_plan.h"

namespace tilelace::cuda {

KernelList TILELACE_KERNEL_LIST_CALLS;

namespace {

static_assert(kStep == plan::kStep, "plans count the kernels' k-steps");
constexpr std::size_t kTiles = std::size(plan::kGemmTiles);

template <int kTile>
GemmKernel kernel_of_tile(DType dtype) {
  using Tile = TileOf<kTile>;
  using Shape = GemmShape<Tile>;
  using Partial = PartialShape<Tile>;
  GemmKernel k;
  k.tile = plan::kGemmTiles[kTile];
  k.dtype = dtype;
  k.given_groups = Partial::kGroups;
  k.given_pieces = Partial::kPieces;
  k.piece_bytes = Partial::kPieceBytes;
  k.stage_bytes = Shape::kStageBytes;
  k.threads = Shape::kThreads;
  k.shared_bytes = Shape::kSharedBytes;
  k.col_slice = Shape::kColSlice;
  k.row_slice = Shape::kRowSlice;
  k.tokens = Shape::tokens();
  k.partial_floats = Shape::kPartialFloats;
  return k;
}

template <int... kTile>
void add_tiles(std::vector<GemmKernel>& all, DType dtype,
               std::integer_sequence<int, kTile...> /*tiles*/) {
  (all.push_back(kernel_of_tile<kTile>(dtype)), ...);
}

std::vector<GemmKernel> all_kernels() {
  std::vector<GemmKernel> all;
  for (const DTypeRow& type : kDTypes)
    if (type.on_gpus)
      add_tiles(all, type.type, std::make_integer_sequence<int, static_cast<int>(kTiles)>{});
  for (const auto list : {TILELACE_KERNEL_LISTS})
    for (const KernelEntry& e : list())
      for (GemmKernel& k : all)
        if (k.dtype == e.dtype && k.tile.name == plan::kGemmTiles[e.tile].name)
          k.functions[static_cast<std::size_t>(e.use)] = e.function;
  return all;
}

}  // namespace

std::span<const GemmKernel> sm90_kernels() {
  static const std::vector<GemmKernel> all = all_kernels();
  return all;
}

}  // namespace tilelace::cuda
