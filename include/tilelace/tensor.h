// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "tilelace/dtype.h"

namespace tilelace {

/// A non-owning view of a row-major matrix: `rows` x `cols` elements of type `dtype` at `data`,
/// with consecutive rows `stride` elements apart. A default-constructed view (null data) means
/// "absent".
/// Alignment: data and stride * size_of(dtype) are multiples of 16 bytes.
struct TensorView {
  void* data = nullptr;
  DType dtype{};
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;

  bool operator==(const TensorView&) const = default;
  /// Whether the tensor is present.
  [[nodiscard]] explicit operator bool() const { return data != nullptr; }
};

/// A view of a dense matrix: `rows` x `cols` elements, the stride is `cols`. Errors: none.
inline TensorView dense(void* data, DType dtype, std::int64_t rows, std::int64_t cols) {
  return {data, dtype, rows, cols, cols};
}

}  // namespace tilelace
