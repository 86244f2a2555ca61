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

template <class Tile, class Element>
GatedKernels made_of() {
  return {reinterpret_cast<const void*>(gemm_kernel<Tile, Element, GemmGatedParams>),
          reinterpret_cast<const void*>(gemm_kernel<Tile, Element, AgGemmGatedParams>)};
}

template <class Tile, bool kMade>
GatedKernels gated(DType dtype) {
  if constexpr (!kMade)
    return {};
  else
    return dtype == DType::bf16 ? made_of<Tile, __nv_bfloat16>() : made_of<Tile, __half>();
}
}  // namespace

GatedKernels gemm_gated(std::string_view tile, DType dtype) {
#define TILELACE_GEMM_GATED(name, ...) \
  if (tile == #name) return gated<name##_tile, plan::can_gate(#name)>(dtype);
  TILELACE_GEMM_COOPERATIVE(TILELACE_GEMM_GATED)
  TILELACE_GEMM_PINGPONG(TILELACE_GEMM_GATED)
  TILELACE_GEMM_TALL(TILELACE_GEMM_GATED)
  TILELACE_GEMM_NARROW(TILELACE_GEMM_GATED)
#undef TILELACE_GEMM_GATED
  return {};
}

}  // namespace tilelace::cuda
