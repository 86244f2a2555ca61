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

#include "tilelace/collectives.h"
#include "tilelace/tilelace.h"

namespace tilelace::torch_binding {

using torch::stable::Tensor;

/// "op: what: got, expected"
[[noreturn]] void wrong(std::string_view op, const std::string& what, const std::string& got,
                        const std::string& expected);

/// "[2, 3]"
std::string shape_of(std::span<const int64_t> sizes);
std::string shape_of(const Tensor& t);

/// Errors: usage (none: torch's dispatcher makes an undefined tensor of it).
void require_tensor(std::string_view op, const std::string& name, const Tensor& t);

/// Errors: usage (another dtype).
DType dtype_of(std::string_view op, const std::string& name, const Tensor& t);

/// As collectives count: by type where they add; what only moves may be any type as wide.
/// Errors: usage (a type that they do not add, a width that they do not have).
Item item_of(std::string_view op, const std::string& name, const Tensor& t, bool adds);

/// Fresh, of its type, or this one, and its device.
Tensor empty_beside(const Tensor& like, std::span<const int64_t> size,
                    std::span<const int64_t> strides,
                    std::optional<torch::headeronly::ScalarType> type = {});

/// Of elements one after the other.
std::vector<int64_t> dense_strides(std::span<const int64_t> size);

/// Fresh, of this type, on its device.
Tensor empty_dense(const Tensor& like, std::span<const int64_t> size,
                   torch::headeronly::ScalarType type);

/// Errors: usage (another type or shape).
void require_shaped(std::string_view op, const std::string& name, const Tensor& t,
                    std::span<const int64_t> size, torch::headeronly::ScalarType type);

/// What a call may write. Errors: usage (those of require_shaped; elements that share memory).
void require_result(std::string_view op, const std::string& name, const Tensor& t,
                    std::span<const int64_t> size, torch::headeronly::ScalarType type);

/// Whether two elements may lie at the same place. Strides that interleave dimensions count as
/// such: nobody makes results of them.
bool overlaps_itself(const Tensor& t);

/// Errors: usage (no tensor, one of another device).
void require_place(std::string_view op, const std::string& name, const Tensor& t, Device device);

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

/// Where a result is written: a fresh tensor, a given one, or a staged copy of either.
class Result {
 public:
  /// A fresh one in the shape of x with `units` in dimension x.dim and `cols` in the last. It is no
  /// view of another: autograd lets nobody write to the views that an op returns.
  Result(const Rows& x, int64_t units, int64_t cols, Device device);
  /// A given tensor in the shape of x with `units` in dimension x.dim and `cols` in the last.
  /// Errors: usage (shape, place).
  Result(std::string_view op, const std::string& name, const Tensor& given, const Rows& x,
         int64_t units, int64_t cols, Device device);

  [[nodiscard]] const TensorView& view() const { return matrix_.view; }
  /// After the call: the tensor that has the result.
  Tensor finish();

 private:
  void stage_or_take(std::string_view op, const Rows& x, Device device);

  Tensor tensor_;
  Matrix matrix_;
  std::optional<Tensor> copy_to_;  ///< rows first
};

}  // namespace tilelace::torch_binding
