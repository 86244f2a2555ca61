// SPDX-License-Identifier: Apache-2.0
// torch's tensors as the matrices that the library takes, copied where their layout is another.
#pragma once
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilelace/tilelace.h"

namespace tilelace::torch_binding {

using torch::stable::Tensor;

/// "op: what: got, expected"
[[noreturn]] void wrong(std::string_view op, const std::string& what, const std::string& got,
                        const std::string& expected);

/// "[2, 3]"
std::string shape_of(std::span<const int64_t> sizes);
std::string shape_of(const Tensor& t);

/// Errors: usage (another dtype).
DType dtype_of(std::string_view op, const std::string& name, const Tensor& t);

Activation activation_of(std::string_view op, const std::string& name);

/// A matrix and what keeps it alive: the tensor itself, or a staged copy.
struct Matrix {
  Tensor tensor;
  TensorView view;
};

/// A 2-d tensor (a 1-d one as a single row) as the device's kernels read it.
/// Errors: usage (dtype, device, dimensions).
Matrix matrix_of(std::string_view op, const std::string& name, const Tensor& t, Device device);

/// Rows first: dimension `dim` of x swapped with the first, and how many rows a unit of it has.
struct Rows {
  Tensor tensor;      ///< x
  Tensor matrix;      ///< [units * inner, k]
  Tensor swapped;     ///< x with its dimensions swapped: what results take their shape from
  int64_t units = 0;  ///< x.size(dim)
  int64_t inner = 1;  ///< rows a unit
  int64_t dim = 0;    ///< from the front
};
Rows rows_of(std::string_view op, const Tensor& x, int64_t dim);

/// Where a result is written: fresh memory, a given tensor, or a staged copy of it.
class Result {
 public:
  /// A fresh [rows, cols], like `like` in type and place.
  Result(const Tensor& like, int64_t rows, int64_t cols, Device device);
  /// A given tensor in the shape of x with `units` in dimension x.dim and `cols` in the last.
  /// Errors: usage (shape, place).
  Result(std::string_view op, const std::string& name, const Tensor& given, const Rows& x,
         int64_t units, int64_t cols, Device device);

  [[nodiscard]] const TensorView& view() const { return matrix_.view; }
  /// After the call: a given tensor has the result, a fresh one is returned as a dense matrix.
  Tensor finish();

 private:
  Matrix matrix_;
  std::optional<Tensor> given_;  ///< to copy to, rows first
};

/// [units * inner, n] in the shape of x with another last dimension and its rows' dimension.
Tensor shaped_as(const Rows& rows, const Tensor& matrix, int64_t units);

}  // namespace tilelace::torch_binding
