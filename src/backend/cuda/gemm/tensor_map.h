// SPDX-License-Identifier: Apache-2.0
// Tensor maps of row-major matrices.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "tilelace/dtype.h"

namespace tilelace::cuda {

/// A matrix [rows, cols], not empty. Row length and stride are multiples of 16 bytes.
struct TensorMapSource {
  const void* data;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride = 0;  ///< elements from one row to the next; 0: rows are contiguous

  bool operator==(const TensorMapSource&) const = default;
};

/// A map whose boxes are `rows` rows x 128 bytes, with 128-byte swizzle. Loads beyond the matrix
/// give zeros, stores beyond it are dropped. Errors: usage, system.
CUtensorMap rows_map(TensorMapSource, DType, int rows);
/// A map for stores. Its boxes are 64 rows x `cols` columns, a multiple of 8, without swizzle.
CUtensorMap strip_map(TensorMapSource, DType, int cols);

}  // namespace tilelace::cuda
