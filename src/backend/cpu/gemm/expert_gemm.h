// SPDX-License-Identifier: Apache-2.0
// Multiplies one expert's rows by its weight, both of any type, in fp32 arithmetic. No weight is
// packed beforehand, since a call has many experts, each with few rows.
#pragma once
#include <cstdint>
#include <vector>

#include "tilelace/moe.h"

namespace tilelace::cpu {

/// One expert's product. Views are dense; x and out have the same number of rows.
struct ExpertProduct {
  TensorView x;                ///< [rows, k]
  TensorView weight;           ///< [w, k]; w is n (gated activation: 2 n)
  const void* bias = nullptr;  ///< [w] or null
  ExpertActivation activation{};
  const float* scales = nullptr;  ///< scales, sources: as in GroupedGemmArgs, for rows of x
  const std::int32_t* sources = nullptr;
  TensorView out;  ///< [rows, n]
};

/// One worker's engine. Every element is summed over k from first to last, so its bits do not
/// depend on which other elements a call computes.
class ExpertGemm {
 public:
  static constexpr std::int64_t kCols = 64;  ///< columns of the result per part
  static std::int64_t parts(std::int64_t n) { return (n + kCols - 1) / kCols; }

  /// Allocates scratch memory for products with this k. Errors: std::bad_alloc.
  void prepare(std::int64_t k);
  /// Computes up to kCols columns of the result, from part * kCols on. k: at most the prepared k.
  void run(const ExpertProduct&, std::int64_t part);

 private:
  void pack(const ExpertProduct&, std::int64_t first, std::int64_t cols, bool second);
  void multiply(const ExpertProduct&, std::int64_t first_row, std::int64_t rows, std::int64_t cols,
                bool gated);
  const float* row_scales(const ExpertProduct&, std::int64_t first, std::int64_t rows);

  std::vector<float> panels_[2];  ///< packed weight in strips [k, lanes]; gated: [0] gate, [1] up
  std::vector<float> rows_;       ///< rows of x
  std::vector<float> sums_[2];
  std::vector<float> weight_row_;
  std::vector<float> scales_;
};

}  // namespace tilelace::cpu
