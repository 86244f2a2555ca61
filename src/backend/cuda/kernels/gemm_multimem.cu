// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernels/gemm_instances.h"
#include "backend/cuda/kernels/gemm_multimem.h"
#include "backend/cuda/kernels/gemm_multimem_table.h"

namespace tilelace::cuda {
namespace {
#pragma nv_diag_suppress 177  // a tile that is not made: its members
TILELACE_GEMM_PINGPONG(TILELACE_GEMM_TYPE)

template <class Tile, class Element, bool kMade>
MultimemKernels kernels() {
  if constexpr (kMade && kIsMade<Tile, Element>)
    return {
        reinterpret_cast<const void*>(gemm_multimem_kernel<Tile, Element, MultimemBy::hardware>),
        reinterpret_cast<const void*>(gemm_multimem_kernel<Tile, Element, MultimemBy::emulated>),
        MultimemShape<Tile>::kThreads};
  else
    return {};
}
}  // namespace

MultimemKernels gemm_multimem(std::string_view tile, DType dtype) {
#define TILELACE_GEMM_MULTIMEM(name, ...)                                                          \
  if (tile == #name)                                                                               \
    return dtype == DType::bf16 ? kernels<name##_tile, __nv_bfloat16, plan::can_multimem(#name)>() \
                                : kernels<name##_tile, __half, plan::can_multimem(#name)>();
  TILELACE_GEMM_PINGPONG(TILELACE_GEMM_MULTIMEM)
#undef TILELACE_GEMM_MULTIMEM
  return {};
}

}  // namespace tilelace::cuda
