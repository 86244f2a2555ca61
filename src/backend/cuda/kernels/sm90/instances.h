// SPDX-License-Identifier: Apache-2.0
// Instantiates a policy's kernels for its tiles and for every element type of GPUs. An op's .cu
// file is compiled in TILELACE_PARTS parts. Each part has every TILELACE_PARTS-th tile and lists
// its kernels in a function named TILELACE_KERNEL_LIST.
#pragma once
#include <string_view>
#include <utility>

#include "backend/cuda/base/gpu_elements.h"
#include "backend/cuda/kernels/gemm_kernels.h"
#include "backend/cuda/kernels/sm90/body.h"
#include "backend/cuda/kernels/sm90/gemm.h"

namespace tilelace::cuda {

/// Whether this build has this tile in this type. A build has all tiles in all types or, with
/// TILELACE_TILES (a list such as ",a,b,"), only the listed tiles in one type.
#ifdef TILELACE_TILES
constexpr bool is_chosen(std::string_view tile, DType dtype) {
  constexpr std::string_view kAll(TILELACE_TILES);
  for (std::size_t at = kAll.find(tile); at != kAll.npos; at = kAll.find(tile, at + 1))
    if (kAll[at - 1] == ',' && kAll[at + tile.size()] == ',')
      return dtype == FewTilesElement::dtype;
  return false;
}
#else
constexpr bool is_chosen(std::string_view /*tile*/, DType /*dtype*/) { return true; }
#endif

using Can = bool (*)(const plan::GemmTile&);

template <template <class> class Op, Can kCan, class Element, int kTile>
void add_kernel(KernelList& list, GemmUse use) {
  constexpr const plan::GemmTile& kRow = plan::kGemmTiles[kTile];
  if constexpr (kCan(kRow) && is_chosen(kRow.name, Element::dtype)) {
    using Policy = Op<Sm90<TileOf<kTile>, typename Element::type>>;
    list.push_back(
        {use, kTile, Element::dtype, reinterpret_cast<const void*>(gemm_kernel<Policy>)});
  }
}

template <template <class> class Op, Can kCan, int kPart, int... kNth>
void add_tiles(KernelList& list, GemmUse use, std::integer_sequence<int, kNth...> /*tiles*/) {
#define TILELACE_ADD(element, ...) \
  (add_kernel<Op, kCan, element, kPart + kNth * TILELACE_PARTS>(list, use), ...);
  TILELACE_EACH_ELEMENT(TILELACE_ADD, )
#undef TILELACE_ADD
}

/// Adds a policy's kernels for the tiles of one part. The part is a template argument, since object
/// files must not define different functions of the same name.
template <template <class> class Op, Can kCan, int kPart = TILELACE_PART>
void add_kernels(KernelList& list, GemmUse use) {
  constexpr int kTiles = static_cast<int>(std::size(plan::kGemmTiles));
  constexpr int kOfPart = (kTiles - kPart + TILELACE_PARTS - 1) / TILELACE_PARTS;
  add_tiles<Op, kCan, kPart>(list, use, std::make_integer_sequence<int, kOfPart>{});
}

}  // namespace tilelace::cuda
