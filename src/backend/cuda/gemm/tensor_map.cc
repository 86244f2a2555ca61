// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm/tensor_map.h"

#include <array>
#include <vector>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/element_types.h"
#include "core/check.h"

namespace tilelace::cuda {
namespace {

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                            CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                            CUtensorMapFloatOOBfill);

Encode encoder() {
  static const Encode encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                           cudaEnableDefault, &found),
          "cuTensorMapEncodeTiled");
    return reinterpret_cast<Encode>(function);
  }();
  require(
      encode != nullptr,
      "cuda: the driver has no cuTensorMapEncodeTiled: a driver for CUDA 13 or later is needed");
  return encode;
}

template <std::size_t kDims>
CUtensorMap make_map(const TensorMapSource& s, DType dtype,
                     const std::array<cuuint64_t, kDims>& extents,
                     const std::array<cuuint64_t, kDims - 1>& strides,
                     const std::array<cuuint32_t, kDims>& box, CUtensorMapSwizzle swizzle) {
  CUtensorMap map{};
  std::array<cuuint32_t, kDims> ones{};
  ones.fill(1);
  const CUresult result =
      encoder()(&map, library_types(dtype).map, kDims, const_cast<void*>(s.data), extents.data(),
                strides.data(), box.data(), ones.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  require(result == CUDA_SUCCESS,
          "cuda: tensor map of [{}, {}] {} at {}: driver error {}; the matrix must be aligned to "
          "16 bytes",
          s.rows, s.cols, name_of(dtype), s.data, static_cast<int>(result));
  return map;
}

/// All that a map depends on.
struct MapKey {
  TensorMapSource source{};
  DType dtype{};
  int box = 0;
  bool planes = false;

  bool operator==(const MapKey&) const = default;
};

/// The thread's maps of before: the driver takes 0.1 to 0.2 us for one, calls have two to ten, and
/// most of a call's are those of an earlier one.
template <class Make>
CUtensorMap known_map(const MapKey& key, const Make& make) {
  struct Known {
    MapKey key;
    CUtensorMap map{};
  };
  constexpr std::size_t kKnown = 1024;
  thread_local std::vector<Known> known(kKnown);
  std::size_t hash = reinterpret_cast<std::uintptr_t>(key.source.data) / 16;
  for (const std::int64_t part : {key.source.rows, key.source.cols, key.source.stride,
                                  std::int64_t{2 * key.box + (key.planes ? 1 : 0)}})
    hash = (hash ^ static_cast<std::size_t>(part)) * 0x9e3779b97f4a7c15ULL;
  Known& place = known[hash >> 54U];
  static_assert(kKnown == 1U << 10U);
  if (place.key != key) place = {key, make()};
  return place.map;
}

}  // namespace

CUtensorMap rows_map(TensorMapSource s, DType dtype, int rows) {
  return known_map({s, dtype, rows, false}, [&] {
    const auto cols = static_cast<cuuint64_t>(s.cols);
    const auto stride = static_cast<cuuint64_t>(s.stride > 0 ? s.stride : s.cols);
    return make_map<2>(s, dtype, {cols, static_cast<cuuint64_t>(s.rows)}, {stride * size_of(dtype)},
                       {64, static_cast<cuuint32_t>(rows)}, CU_TENSOR_MAP_SWIZZLE_128B);
  });
}

CUtensorMap planes_map(TensorMapSource s, DType dtype, int planes) {
  return known_map({s, dtype, planes, true}, [&] {
    const auto cols = static_cast<cuuint64_t>(s.cols);
    return make_map<3>(s, dtype, {8, static_cast<cuuint64_t>(s.rows), cols / 8},
                       {cols * size_of(dtype), 8 * size_of(dtype)},
                       {8, 64, static_cast<cuuint32_t>(planes)}, CU_TENSOR_MAP_SWIZZLE_NONE);
  });
}

}  // namespace tilelace::cuda
