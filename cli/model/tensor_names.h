// SPDX-License-Identifier: Apache-2.0
// Where each family keeps the weights of a layer, and in which layout.
#pragma once
#include <cstdint>
#include <string>

#include "model/layers.h"

namespace tilelace::model {

/// Says where the stored matrix has row r of one logical weight [n, k]: in row (r / group) * stride
/// + r % group + offset (if transposed, in that column).
struct Place {
  std::string prefix;     ///< names in the file may lack it
  std::string stem;       ///< followed by ".weight" or ".bias"
  std::int64_t rows = 0;  ///< rows and cols as stored, before transposing
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
