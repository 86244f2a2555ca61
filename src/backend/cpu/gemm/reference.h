// SPDX-License-Identifier: Apache-2.0
// Products in fp64, for tests and the command's checks. Simple rather than fast.
#pragma once
#include <cstdint>
#include <vector>

#include "tilelace/tensor.h"

namespace tilelace::cpu {

/// y[a.rows, w.rows] (row-major, contiguous) = a * w^T in fp64, or += if `accumulate`. `abs_sum`,
/// if not null, gets sum |a * w| in the same way. Pass offset views for a block of the output.
void reference_gemm(const TensorView& a, const TensorView& w, double* y, double* abs_sum,
                    bool accumulate);

/// The reference of one output block, summed over ranks; `check_gemm` compares with it.
class GemmReference {
 public:
  GemmReference(std::int64_t rows, std::int64_t cols);

  /// Adds a * w^T. `rounded`: this partial sum is rounded to the output's type when sent.
  void add(const TensorView& a, const TensorView& w, bool rounded = false);
  /// Adds bias[cols] to every row; null does nothing.
  void add_bias(const void* bias, DType dtype);
  /// Adds a matrix [rows, cols].
  void add(const TensorView& residual);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t cols() const { return cols_; }
  /// All three are [rows, cols]: the value, sum |a b| (and |bias|, |residual|), and the sum of the
  /// magnitudes of the rounded partial sums.
  [[nodiscard]] const std::vector<double>& value() const { return value_; }
  [[nodiscard]] const std::vector<double>& abs_sum() const { return abs_sum_; }
  [[nodiscard]] const std::vector<double>& rounded_sum() const { return rounded_sum_; }

 private:
  std::int64_t rows_, cols_;
  std::vector<double> value_, abs_sum_, rounded_sum_;
};

}  // namespace tilelace::cpu
