// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernels/gemm.h"
#include "backend/cuda/kernels/gemm_instances.h"

namespace tilelace::cuda {
namespace {
#pragma nv_diag_suppress 177  // a tile that is not made: its members
TILELACE_GEMM_TILES(TILELACE_GEMM_TYPE)

template <class Tile, class Element, bool kWide>
WideKernels wide() {
  WideKernels kernels;
  if constexpr (kWide && kIsMade<Tile, Element>) {
    kernels.function = reinterpret_cast<const void*>(gemm_kernel<Tile, Element, GemmWideParams>);
    if constexpr (plan::can_reduce(Tile::groups, Tile::blocks, Tile::width, Tile::pingpong,
                                   Tile::swapped))
      kernels.reducing =
          reinterpret_cast<const void*>(gemm_kernel<Tile, Element, GemmRsWideParams>);
    // No registers are left for traces.
    if constexpr (!kTraced && Tile::pingpong)
      kernels.sharing =
          reinterpret_cast<const void*>(roomy_gemm_kernel<Tile, Element, GemmArWideParams>);
  }
  return kernels;
}
}  // namespace

WideKernels gemm_wide(std::string_view tile, DType dtype) {
#define TILELACE_GEMM_WIDE(name, ...) TILELACE_GEMM_LOOK_UP(wide, name, plan::can_widen(#name))
  TILELACE_GEMM_TILES(TILELACE_GEMM_WIDE)
#undef TILELACE_GEMM_WIDE
  return {};
}

}  // namespace tilelace::cuda
