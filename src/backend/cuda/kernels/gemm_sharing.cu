// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernels/gemm.h"
#include "backend/cuda/kernels/gemm_instances.h"

namespace tilelace::cuda {
namespace {
#pragma nv_diag_suppress 177  // a tile that is not made: its members
TILELACE_GEMM_COOPERATIVE(TILELACE_GEMM_TYPE)
TILELACE_GEMM_PINGPONG(TILELACE_GEMM_TYPE)

template <class Tile, class Element, bool kShares>
const void* sharing() {
  if constexpr (!kShares || !kIsMade<Tile, Element>)
    return nullptr;
  else
    return reinterpret_cast<const void*>(gemm_kernel<Tile, Element, GemmArParams>);
}
}  // namespace

const void* gemm_sharing(std::string_view tile, DType dtype) {
#define TILELACE_GEMM_SHARING(name, groups, blocks, width, ...) \
  TILELACE_GEMM_LOOK_UP(                                        \
      sharing, name,                                            \
      plan::can_share(#name, blocks, width, name##_tile::pingpong, name##_tile::swapped))
  TILELACE_GEMM_COOPERATIVE(TILELACE_GEMM_SHARING)
  TILELACE_GEMM_PINGPONG(TILELACE_GEMM_SHARING)
#undef TILELACE_GEMM_SHARING
  return nullptr;
}

}  // namespace tilelace::cuda
