// SPDX-License-Identifier: Apache-2.0
// Turns a list of plan/gemm_tiles.h into kernels for all element types of GPUs.
#pragma once
#include "backend/cuda/base/element_types.h"
#include "backend/cuda/kernels/gemm.h"
#include "backend/cuda/kernels/gemm_table.h"

namespace tilelace::cuda {

/// Whether kernels are made for this tile: for all, or, of one type alone, for those of
/// TILELACE_TILES
/// (",a,b,").
#ifdef TILELACE_TILES
constexpr bool is_chosen(std::string_view tile) {
  constexpr std::string_view kAll(TILELACE_TILES);
  for (std::size_t at = kAll.find(tile); at != kAll.npos; at = kAll.find(tile, at + 1))
    if (kAll[at - 1] == ',' && kAll[at + tile.size()] == ',') return true;
  return false;
}
template <class Tile, class Element>
constexpr bool kIsMade = Tile::chosen&& std::is_same_v<Element, FewTilesElement::type>;
#else
constexpr bool is_chosen(std::string_view /*tile*/) { return true; }
template <class Tile, class Element>
constexpr bool kIsMade = Tile::chosen;
#endif

template <class Tile, class Element, bool kGathers>
GemmKernel gemm_entry(plan::GemmTile tile, DType dtype) {
  using Shape = GemmShape<Tile>;
  const void* alone = nullptr;
  const void* gathering = nullptr;
  const void* reducing = nullptr;
  if constexpr (kIsMade<Tile, Element>) {
    constexpr bool kAcross = plan::is_across(Tile::width, Tile::swapped);
    using Gathering = std::conditional_t<kAcross, AgGemmAcrossParams, AgGemmParams>;
    using Reducing = std::conditional_t<kAcross, GemmRsAcrossParams, GemmRsParams>;
    if constexpr (plan::can_reduce(Tile::groups, Tile::blocks, Tile::width, Tile::pingpong,
                                   Tile::swapped))
      reducing = reinterpret_cast<const void*>(gemm_kernel<Tile, Element, Reducing>);
    if constexpr (kGathers)
      gathering = reinterpret_cast<const void*>(gemm_kernel<Tile, Element, Gathering>);
    alone = reinterpret_cast<const void*>(gemm_kernel<Tile, Element, GemmParams>);
  }
  return {tile,
          dtype,
          alone,
          gathering,
          reducing,
          PartialShape<Tile>::kGroups,
          PartialShape<Tile>::kPieces,
          PartialShape<Tile>::kPieceBytes,
          Shape::kStageBytes,
          Shape::kThreads,
          Shape::kSharedBytes,
          Shape::kColSlice,
          Shape::kRowSlice,
          Shape::tokens(),
          Shape::kPartialFloats};
}

}  // namespace tilelace::cuda

#define TILELACE_GEMM_TYPE(name, g, b, w, s, cr, cc, st, pp, sw, ps)                       \
  struct name##_tile {                                                                     \
    static constexpr bool chosen = is_chosen(#name);                                       \
    static constexpr int groups = g, blocks = b, width = w, stages = s, cluster_rows = cr, \
                         cluster_cols = cc, staging = st, per_sm = ps;                     \
    static constexpr bool pingpong = pp, swapped = sw;                                     \
  };
/// What a function of `tile` and `dtype` returns for a tile of that name: of<tile, element, ...>().
#define TILELACE_GEMM_LOOK_UP(of, name, ...) \
  if (tile == #name)                         \
    return with_element(                     \
        dtype, [](auto e) { return of<name##_tile, typename decltype(e)::type, __VA_ARGS__>(); });
#define TILELACE_GEMM_ENTRY_OF(element, gathers, name, ...)                           \
  gemm_entry<name##_tile, element::type, gathers>(plan::GemmTile{#name, __VA_ARGS__}, \
                                                  element::dtype),
#define TILELACE_GEMM_ENTRY(...) TILELACE_EACH_ELEMENT(TILELACE_GEMM_ENTRY_OF, true, __VA_ARGS__)
#define TILELACE_GEMM_ENTRY_ALONE(...) \
  TILELACE_EACH_ELEMENT(TILELACE_GEMM_ENTRY_OF, false, __VA_ARGS__)
