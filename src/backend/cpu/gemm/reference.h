// SPDX-License-Identifier: Apache-2.0
// Products in fp64, for tests and for the command's checks. Simple, not fast.
#pragma once
#include <cstdint>
#include <vector>

#include "tilelace/tensor.h"

namespace tilelace::cpu {

/// y[a.rows, w.rows] (row-major, contiguous) = a * w^T in fp64, or += if `accumulate`. `abs_sum`,
/// if not null, receives sum |a * w| likewise. For one block of the output, pass views of only the
/// rows of a and w that the block needs.
void reference_gemm(const TensorView& a, const TensorView& w, double* y, double* abs_sum,
                    bool accumulate);

/// The reference for one block of the output, summed over ranks; check_gemm uses it.
class GemmReference {
 public:
  GemmReference(std::int64_t rows, std::int64_t cols);

  /// Adds a * w^T. `rounded`: this partial is rounded to the output's type before it is sent.
  void add(const TensorView& a, const TensorView& w, bool rounded = false);
  /// Adds bias[cols] to every row; null does nothing.
  void add_bias(const void* bias, DType dtype);
  /// Adds a matrix [rows, cols].
  void add(const TensorView& residual);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t cols() const { return cols_; }
  /// Matrices [rows, cols]. value: the exact result. abs_sum: sum |a b| + |bias| + |residual|.
  /// rounded_sum: the sum of the magnitudes of the rounded partials.
  [[nodiscard]] const std::vector<double>& value() const { return value_; }
  [[nodiscard]] const std::vector<double>& abs_sum() const { return abs_sum_; }
  [[nodiscard]] const std::vector<double>& rounded_sum() const { return rounded_sum_; }

 private:
  std::int64_t rows_, cols_;
  std::vector<double> value_, abs_sum_, rounded_sum_;
};

}  // namespace tilelace::cpu
