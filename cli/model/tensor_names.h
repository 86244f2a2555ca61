// SPDX-License-Identifier: Apache-2.0
// Where each family keeps the weights of a layer, and in which layout.
#pragma once
#include <cstdint>
#include <string>

#include "model/layers.h"

namespace tilelace::model {

/// Where a stored matrix holds row r of one logical weight [n, k]: in its row (if transposed, in
/// its column) with the index (r / group) * stride + r % group + offset.
struct Place {
  std::string prefix;     ///< tensor names in a file may lack this prefix
  std::string stem;       ///< followed by ".weight" or ".bias"
  std::int64_t rows = 0;  ///< rows, cols: of the stored matrix; if `transposed`, of its transpose
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
