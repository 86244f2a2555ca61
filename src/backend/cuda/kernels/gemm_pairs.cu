// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernels/gemm.h"
#include "backend/cuda/kernels/gemm_instances.h"

namespace tilelace::cuda {
namespace {
#pragma nv_diag_suppress 177  // a tile that is not made: its members
TILELACE_GEMM_COOPERATIVE(TILELACE_GEMM_TYPE)
TILELACE_GEMM_PINGPONG(TILELACE_GEMM_TYPE)

template <class Tile, class Element, bool kMade>
const void* pairs() {
  if constexpr (kMade && kIsMade<Tile, Element>)
    return reinterpret_cast<const void*>(gemm_kernel<Tile, Element, GemmRsPairParams>);
  else
    return nullptr;
}
}  // namespace

const void* gemm_pairs(std::string_view tile, DType dtype) {
#define TILELACE_GEMM_PAIRS(name, ...) TILELACE_GEMM_LOOK_UP(pairs, name, plan::can_pair(#name))
  TILELACE_GEMM_COOPERATIVE(TILELACE_GEMM_PAIRS)
  TILELACE_GEMM_PINGPONG(TILELACE_GEMM_PAIRS)
#undef TILELACE_GEMM_PAIRS
  return nullptr;
}

}  // namespace tilelace::cuda
