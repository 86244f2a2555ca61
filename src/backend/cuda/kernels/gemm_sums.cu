// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernels/gemm_instances.h"
#include "backend/cuda/kernels/gemm_sums.h"
#include "backend/cuda/kernels/gemm_sums_table.h"

namespace tilelace::cuda {
namespace {
#pragma nv_diag_suppress 177  // a tile that is not made: its members
TILELACE_GEMM_TILES(TILELACE_GEMM_TYPE)

template <class Tile, class Element, bool kBySwitch, bool kByPeers>
SumsKernels kernels() {
  SumsKernels made;
  if constexpr (kBySwitch && kIsMade<Tile, Element>)
    made.by_switch =
        reinterpret_cast<const void*>(gemm_sums_kernel<Tile, Element, SumsBy::by_switch>);
  if constexpr (kByPeers && kIsMade<Tile, Element>)
    made.by_peers =
        reinterpret_cast<const void*>(gemm_sums_kernel<Tile, Element, SumsBy::by_peers>);
  return made;
}
}  // namespace

SumsKernels gemm_sums(std::string_view tile, DType dtype) {
#define TILELACE_GEMM_SUMS(name, ...) \
  TILELACE_GEMM_LOOK_UP(kernels, name, plan::can_multimem(#name), plan::can_pull(#name))
  TILELACE_GEMM_TILES(TILELACE_GEMM_SUMS)
#undef TILELACE_GEMM_SUMS
  return {};
}

}  // namespace tilelace::cuda
