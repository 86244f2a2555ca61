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

/// `box`: columns, rows.
CUtensorMap make_map(const TensorMapSource& s, DType dtype, const std::array<cuuint32_t, 2>& box,
                     CUtensorMapSwizzle swizzle) {
  CUtensorMap map{};
  const std::array extents{static_cast<cuuint64_t>(s.cols), static_cast<cuuint64_t>(s.rows)};
  const cuuint64_t stride =
      static_cast<cuuint64_t>(s.stride > 0 ? s.stride : s.cols) * size_of(dtype);
  const std::array<cuuint32_t, 2> ones{1, 1};
  const CUresult result =
      encoder()(&map, library_types(dtype).map, 2, const_cast<void*>(s.data), extents.data(),
                &stride, box.data(), ones.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
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
  bool strip = false;

  bool operator==(const MapKey&) const = default;
};

/// The thread's maps of before: the driver takes 0.1 to 0.2 us for one, calls have two to 26,
/// and most of a call's are those of an earlier one.
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
                                  std::int64_t{2 * key.box + (key.strip ? 1 : 0)}})
    hash = (hash ^ static_cast<std::size_t>(part)) * 0x9e3779b97f4a7c15ULL;
  Known& place = known[hash >> 54U];
  static_assert(kKnown == 1U << 10U);
  if (place.key != key) place = {key, make()};
  return place.map;
}

}  // namespace

CUtensorMap rows_map(TensorMapSource s, DType dtype, int rows) {
  return known_map({s, dtype, rows, false}, [&] {
    return make_map(s, dtype, {64, static_cast<cuuint32_t>(rows)}, CU_TENSOR_MAP_SWIZZLE_128B);
  });
}

CUtensorMap strip_map(TensorMapSource s, DType dtype, int cols) {
  return known_map({s, dtype, cols, true}, [&] {
    return make_map(s, dtype, {static_cast<cuuint32_t>(cols), 64}, CU_TENSOR_MAP_SWIZZLE_NONE);
  });
}

}  // namespace tilelace::cuda
