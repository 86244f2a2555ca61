// SPDX-License-Identifier: Apache-2.0
// Element types of GPUs, for host code: maps a DType to the kernels' type for it, and to the names
// that vendor libraries use.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <library_types.h>

#include <optional>
#include <string>
#include <type_traits>

#include "backend/cuda/base/gpu_elements.h"
#include "tilelace/dtype.h"
#include "tilelace/error.h"

namespace tilelace::cuda {

/// Calls f with the kernels' type for t, as f(Bf16Element{}). If kernels have none, returns {}.
template <class F>
auto with_element(DType t, const F& f) -> decltype(f(Bf16Element{})) {
  using Result = decltype(f(Bf16Element{}));
  static_assert(!std::is_enum_v<Result>, "0 of a status would say that all went well");
#define TILELACE_WITH_ELEMENT(element, ...) \
  if (t == element::dtype) return f(element{});
  TILELACE_EACH_ELEMENT(TILELACE_WITH_ELEMENT, )
#undef TILELACE_WITH_ELEMENT
  if constexpr (!std::is_void_v<Result>) return {};
}

/// Calls f(type) for every type that kernels have, until one call returns an error.
template <class F>
auto for_each_gpu_dtype(const F& f) -> decltype(f(DType{})) {
  for (const DTypeRow& row : kDTypes)
    if (row.on_gpus)
      if (const auto status = f(row.type); status != decltype(status){}) return status;
  return {};
}

/// Loads the kernel that `kernel_of` has of every such type, so that its first launch need not.
template <class KernelOf>
cudaError_t load_each_gpu_dtype(const KernelOf& kernel_of) {
  return for_each_gpu_dtype([&](DType dtype) {
    cudaFuncAttributes attributes{};
    return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel_of(dtype)));
  });
}

/// The vendor libraries' names of a type.
struct LibraryTypes {
  DType type;
  cudaDataType_t blas;      ///< the name in cuBLAS
  CUtensorMapDataType map;  ///< the name in tensor maps
};
inline constexpr LibraryTypes kLibraryTypes[] = {
    {DType::bf16, CUDA_R_16BF, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16},
    {DType::fp16, CUDA_R_16F, CU_TENSOR_MAP_DATA_TYPE_FLOAT16},
    {DType::fp32, CUDA_R_32F, CU_TENSOR_MAP_DATA_TYPE_FLOAT32}};

/// The names of a type, or no value if the vendor libraries do not have the type.
constexpr std::optional<LibraryTypes> find_library_types(DType t) {
  for (const LibraryTypes& row : kLibraryTypes)
    if (row.type == t) return row;
  return std::nullopt;
}

/// The names of a type. Errors: usage (the vendor libraries do not have the type).
inline LibraryTypes library_types(DType t) {
  if (const auto found = find_library_types(t)) return *found;
  throw Error(ErrorKind::usage, "cuda: dtype: got " + std::string(name_of(t)) +
                                    ", which cuBLAS and tensor maps do not support");
}

static_assert(
    [] {
      for (const DTypeRow& row : kDTypes) {
        bool listed = !row.on_gpus;
#define TILELACE_IS_LISTED(element, ...) listed = listed || element::dtype == row.type;
        TILELACE_EACH_ELEMENT(TILELACE_IS_LISTED, )
#undef TILELACE_IS_LISTED
        if (!listed || (row.on_gpus && !find_library_types(row.type))) return false;
      }
      return find_library_types(kAccumulator).has_value();
    }(),
    "a type that is on GPUs is missing here");

}  // namespace tilelace::cuda
