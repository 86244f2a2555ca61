// SPDX-License-Identifier: Apache-2.0
// Products of one expert's rows in fp32, with a weight of any type. Nothing is packed beforehand,
// since a call has many experts, each with few rows.
#pragma once
#include <cstdint>
#include <vector>

#include "tilelace/moe.h"

namespace tilelace::cpu {

/// One expert's product. Views are dense; `rows` of x and of out are the same.
struct ExpertProduct {
  TensorView x;                ///< [rows, k]
  TensorView weight;           ///< [w, k]; w is n, or 2 n if gated
  const void* bias = nullptr;  ///< [w] or null
  ExpertActivation activation{};
  const float* scales = nullptr;  ///< as in GroupedGemmArgs; rows count from this expert's first
  const std::int32_t* sources = nullptr;
  TensorView out;  ///< [rows, n]
};

/// Multiplies for one worker. An element's sum runs from the first to the last of k, whatever rows
/// and columns are computed beside it.
class ExpertGemm {
 public:
  static constexpr std::int64_t kCols = 64;  ///< of the result, in a part
  static std::int64_t parts(std::int64_t n) { return (n + kCols - 1) / kCols; }

  /// Makes room for products with this k. Errors: std::bad_alloc.
  void prepare(std::int64_t k);
  /// Columns [part * kCols, ..) of the result. k is at most the prepared one.
  void run(const ExpertProduct&, std::int64_t part);

 private:
  void pack(const ExpertProduct&, std::int64_t first, std::int64_t cols, bool second);
  void multiply(const ExpertProduct&, std::int64_t first_row, std::int64_t rows, std::int64_t cols,
                bool gated);
  const float* row_scales(const ExpertProduct&, std::int64_t first, std::int64_t rows);

  std::vector<float> panels_[2];  ///< of the weight, in strips [k, lanes]; gated: gate, then up
  std::vector<float> rows_;       ///< of x
  std::vector<float> sums_[2];
  std::vector<float> weight_row_;
  std::vector<float> scales_;
};

}  // namespace tilelace::cpu
