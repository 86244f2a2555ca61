// SPDX-License-Identifier: Apache-2.0
// Turns torch's tensors into the library's matrices; copies tensors whose layout does not fit.
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

/// Alignment, in bytes, that the library needs of tensors' data and, on GPUs, of each row.
inline constexpr int64_t kAlignment = 16;

/// Throws a usage error "op: text".
[[noreturn]] void wrong(std::string_view op, const std::string& text);
/// Throws a usage error "op: what: got VALUE, expected SET".
[[noreturn]] void wrong(std::string_view op, const std::string& what, const std::string& got,
                        const std::string& expected);

/// Sizes as a text: "[2, 3]".
std::string shape_of(std::span<const int64_t> sizes);
std::string shape_of(const Tensor& t);

/// Errors: usage (an undefined tensor, which torch's dispatcher passes for None).
void require_tensor(std::string_view op, const std::string& name, const Tensor& t);

/// Errors: usage (a dtype that the library does not have).
DType dtype_of(std::string_view op, const std::string& name, const Tensor& t);

/// The element type for a collective: the tensor's own if the collective adds, else any type of the
/// same width. Errors: usage (a type that cannot be added, or no type of that width).
Item item_of(std::string_view op, const std::string& name, const Tensor& t, bool adds);

/// A new tensor on the device of `like`, of this type or, if none is given, of the type of `like`.
Tensor empty_beside(const Tensor& like, std::span<const int64_t> size,
                    std::span<const int64_t> strides,
                    std::optional<torch::headeronly::ScalarType> type = {});

/// Strides of a contiguous tensor.
std::vector<int64_t> dense_strides(std::span<const int64_t> size);

/// A new contiguous tensor of this type on the device of `like`.
Tensor empty_dense(const Tensor& like, std::span<const int64_t> size,
                   torch::headeronly::ScalarType type);

/// Errors: usage (wrong type or shape).
void require_shaped(std::string_view op, const std::string& name, const Tensor& t,
                    std::span<const int64_t> size, torch::headeronly::ScalarType type);

/// Checks a tensor that a call writes. Errors: usage (as require_shaped; elements that overlap).
void require_result(std::string_view op, const std::string& name, const Tensor& t,
                    std::span<const int64_t> size, torch::headeronly::ScalarType type);

/// Whether two elements may share an address. Strides that interleave dimensions count as
/// overlapping, since results never have such strides.
bool overlaps_itself(const Tensor& t);

/// Errors: usage (no tensor, wrong device).
void require_place(std::string_view op, const std::string& name, const Tensor& t, Device device);

Activation activation_of(std::string_view op, const std::string& name);

/// A matrix and the tensor that holds its memory: the given tensor, or a staged copy.
struct Matrix {
  Tensor tensor;
  TensorView view;
};

/// The matrix of a tensor with two dimensions or one (a single row). It is a staged copy if kernels
/// cannot read the tensor's layout. Errors: usage (dtype, device, number of dimensions).
Matrix matrix_of(std::string_view op, const std::string& name, const Tensor& t, Device device);

/// x as a matrix of rows. Dimension `dim` comes first; each index of it has `inner` rows.
struct Rows {
  Tensor tensor;      ///< x
  Tensor matrix;      ///< [units * inner, k]
  Tensor swapped;     ///< x with dimensions 0 and `dim` swapped, as results lie in memory
  int64_t units = 0;  ///< x.size(dim)
  int64_t inner = 1;  ///< rows per unit
  int64_t dim = 0;    ///< dimension of x that is split; not negative
};
Rows rows_of(std::string_view op, const Tensor& x, int64_t dim);

/// The memory that gets a result: a new tensor, a given tensor, or a staged copy of either.
class Result {
 public:
  /// Makes a tensor shaped as x, with `units` in dimension x.dim and `cols` in the last. The tensor
  /// is no view, since autograd forbids writing to views that an op returns.
  Result(const Rows& x, int64_t units, int64_t cols, Device device);
  /// Uses a given tensor, which must be shaped as x, with `units` in dimension x.dim and `cols` in
  /// the last. Errors: usage (wrong shape, type or device; elements that overlap).
  Result(std::string_view op, const std::string& name, const Tensor& given, const Rows& x,
         int64_t units, int64_t cols, Device device);

  [[nodiscard]] const TensorView& view() const { return matrix_.view; }
  /// After the call: the tensor with the result.
  Tensor finish();

 private:
  void stage_or_take(std::string_view op, const Rows& x, Device device);

  Tensor tensor_;
  Matrix matrix_;
  std::optional<Tensor> copy_to_;  ///< where finish() copies a staged result; split dimension first
};

}  // namespace tilelace::torch_binding
