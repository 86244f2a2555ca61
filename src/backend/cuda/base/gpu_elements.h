// SPDX-License-Identifier: Apache-2.0
// The kernels' element types.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tilelace/dtype.h"

namespace tilelace::cuda {

template <class E, DType kType>
struct ElementType {
  using type = E;
  static constexpr DType dtype = kType;
};
using Bf16Element = ElementType<__nv_bfloat16, DType::bf16>;
using Fp16Element = ElementType<__half, DType::fp16>;
/// Builds with kernels of a few tile shapes (TILELACE_TILES) have this type alone.
using FewTilesElement = Bf16Element;

}  // namespace tilelace::cuda

/// Expands to X(element, ...) for every element type of the kernels.
#define TILELACE_EACH_ELEMENT(X, ...)           \
  X(::tilelace::cuda::Bf16Element, __VA_ARGS__) \
  X(::tilelace::cuda::Fp16Element, __VA_ARGS__)
