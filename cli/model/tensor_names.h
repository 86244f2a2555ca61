// SPDX-License-Identifier: Apache-2.0
// Where each family keeps the weights of a layer, and in which layout.
#pragma once
#include <cstdint>
#include <string>

#include "model/layers.h"

namespace tilelace::model {

/// Which tensor of a file holds a logical weight [n, k]. The weight's row r is the tensor's row (if
/// transposed, its column) number (r / group) * stride + r % group + offset.
struct Place {
  std::string prefix;     ///< first part of the tensor's name; some files leave it out
  std::string stem;       ///< second part of the name; ".weight" or ".bias" follows
  std::int64_t rows = 0;  ///< rows, cols: extents of the tensor (of its transpose if `transposed`)
  std::int64_t cols = 0;
  bool transposed = false;  ///< GPT-2's Conv1D stores [k, n]
  std::int64_t group = 0;
  std::int64_t stride = 0;
  std::int64_t offset = 0;

  [[nodiscard]] std::int64_t row(std::int64_t r) const {
    return r / group * stride + r % group + offset;
  }
};

/// The place of weight `index` of a layer's GEMM.
Place place_of(const ModelConfig& config, const LayerGemm& gemm, std::size_t index, int layer);

}  // namespace tilelace::model
