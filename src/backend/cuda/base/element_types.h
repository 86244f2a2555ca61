// SPDX-License-Identifier: Apache-2.0
// Element types of GPUs, on the host: from DType to the type that kernels are made with, and to
// what the libraries call it.
#pragma once
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <library_types.h>

#include <type_traits>

#include "tilelace/dtype.h"

namespace tilelace::cuda {

template <class E, DType kType>
struct ElementType {
  using type = E;
  static constexpr DType dtype = kType;
};
using Bf16Element = ElementType<__nv_bfloat16, DType::bf16>;
using Fp16Element = ElementType<__half, DType::fp16>;
/// What builds with kernels of a few tiles have them in.
using FewTilesElement = Bf16Element;

/// f(Bf16Element{}) and so on; nothing, a null or empty result, for a type that is not on GPUs.
template <class F>
auto with_element(DType t, const F& f) -> decltype(f(Bf16Element{})) {
  using Result = decltype(f(Bf16Element{}));
  static_assert(!std::is_enum_v<Result>, "0 of a status would say that all went well");
  switch (t) {
    case DType::bf16: return f(Bf16Element{});
    case DType::fp16: return f(Fp16Element{});
    case DType::fp32: break;
  }
  if constexpr (!std::is_void_v<Result>) return {};
}

/// f(row) of every type that is on GPUs, until one is no cudaSuccess.
template <class F>
auto for_each_gpu_dtype(const F& f) -> decltype(f(DType{})) {
  for (const DTypeRow& row : kDTypes)
    if (row.on_gpus)
      if (const auto status = f(row.type); status != decltype(status){}) return status;
  return {};
}

/// As cublas has it.
inline cudaDataType_t library_type(DType t) {
  switch (t) {
    case DType::bf16: return CUDA_R_16BF;
    case DType::fp16: return CUDA_R_16F;
    case DType::fp32: break;
  }
  return CUDA_R_32F;
}

/// As descriptors of the copy unit have it.
inline CUtensorMapDataType map_type(DType t) {
  switch (t) {
    case DType::bf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::fp16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::fp32: break;
  }
  return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
}

}  // namespace tilelace::cuda

/// X(element, ...) of every type that is on GPUs, for lists.
#define TILELACE_EACH_ELEMENT(X, ...)           \
  X(::tilelace::cuda::Bf16Element, __VA_ARGS__) \
  X(::tilelace::cuda::Fp16Element, __VA_ARGS__)
