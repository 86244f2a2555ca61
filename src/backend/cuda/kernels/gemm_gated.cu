// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernels/gemm.h"
#include "backend/cuda/kernels/gemm_instances.h"

namespace tilelace::cuda {
namespace {
#pragma nv_diag_suppress 177  // a tile that is not made: its members
TILELACE_GEMM_COOPERATIVE(TILELACE_GEMM_TYPE)
TILELACE_GEMM_PINGPONG(TILELACE_GEMM_TYPE)
TILELACE_GEMM_TALL(TILELACE_GEMM_TYPE)
TILELACE_GEMM_NARROW(TILELACE_GEMM_TYPE)

template <class Tile, class Element, bool kGated>
GatedKernels gated() {
  if constexpr (kGated && kIsMade<Tile, Element>)
    return {reinterpret_cast<const void*>(gemm_kernel<Tile, Element, GemmGatedParams>),
            reinterpret_cast<const void*>(gemm_kernel<Tile, Element, AgGemmGatedParams>)};
  else
    return {};
}
}  // namespace

GatedKernels gemm_gated(std::string_view tile, DType dtype) {
#define TILELACE_GEMM_GATED(name, ...) TILELACE_GEMM_LOOK_UP(gated, name, plan::can_gate(#name))
  TILELACE_GEMM_COOPERATIVE(TILELACE_GEMM_GATED)
  TILELACE_GEMM_PINGPONG(TILELACE_GEMM_GATED)
  TILELACE_GEMM_TALL(TILELACE_GEMM_GATED)
  TILELACE_GEMM_NARROW(TILELACE_GEMM_GATED)
#undef TILELACE_GEMM_GATED
  return {};
}

}  // namespace tilelace::cuda
