// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/tensors.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace tilelace::torch_binding {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::contiguous;
using torch::stable::copy_;
using torch::stable::narrow;
using torch::stable::reshape;
using torch::stable::transpose;

/// What torch calls a type.
struct TorchType {
  ScalarType scalar;
  DType type;
};
constexpr TorchType kTorchTypes[] = {{ScalarType::BFloat16, DType::bf16},
                                     {ScalarType::Half, DType::fp16},
                                     {ScalarType::Float, DType::fp32}};
static_assert(std::size(kTorchTypes) == std::size(kDTypes), "torch has all of ours");

struct TorchItem {
  ScalarType scalar;
  Item item;
};
constexpr TorchItem kTorchItems[] = {
    {ScalarType::BFloat16, Item::bf16}, {ScalarType::Half, Item::fp16},
    {ScalarType::Float, Item::fp32},    {ScalarType::Int, Item::i32},
    {ScalarType::Long, Item::i64},      {ScalarType::Byte, Item::u8}};
static_assert(std::size(kTorchItems) == std::size(kItems), "torch has all of ours");

/// CPU ranks take padded rows, GPU ranks rows one after the other.
bool readable(const Tensor& t, DType dtype, Device device) {
  const auto size = static_cast<int64_t>(size_of(dtype));
  const int64_t rows = t.size(0);
  const int64_t cols = t.size(1);
  if (rows == 0 || cols == 0) return true;
  if (reinterpret_cast<uintptr_t>(t.const_data_ptr()) % kAlignment != 0) return false;
  if (cols > 1 && t.stride(1) != 1) return false;
  if (rows == 1) return true;
  const bool wide = device == Device::cuda ? t.stride(0) == cols : t.stride(0) >= cols;
  return wide && (t.stride(0) * size) % kAlignment == 0;
}

TensorView view_of(const Tensor& t, DType dtype) {
  TensorView v = dense(t.mutable_data_ptr(), dtype, t.size(0), t.size(1));
  if (t.size(0) > 1) v.stride = t.stride(0);
  return v;
}

/// A fresh tensor that kernels read and write in place.
Tensor staging(const Tensor& like, DType dtype, int64_t rows, int64_t cols, Device device) {
  const auto grain = kAlignment / static_cast<int64_t>(size_of(dtype));
  const int64_t width = device == Device::cuda ? cols : (cols + grain - 1) / grain * grain;
  const std::array<int64_t, 2> size{rows, width};
  const std::array<int64_t, 2> strides{std::max<int64_t>(width, 1), 1};
  auto whole = empty_beside(like, size, strides);
  return width == cols ? whole : narrow(whole, 1, 0, cols);
}

}  // namespace

void wrong(std::string_view op, const std::string& text) {
  throw Error(ErrorKind::usage, std::string(op) + ": " + text);
}

void wrong(std::string_view op, const std::string& what, const std::string& got,
           const std::string& expected) {
  wrong(op, what + ": got " + got + ", expected " + expected);
}

std::string shape_of(std::span<const int64_t> sizes) {
  std::string text = "[";
  for (const auto size : sizes) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(size);
  }
  return text += "]";
}

std::string shape_of(const Tensor& t) {
  const auto sizes = t.sizes();
  return shape_of(std::span(sizes.data(), sizes.size()));
}

void require_tensor(std::string_view op, const std::string& name, const Tensor& t) {
  if (!t.defined()) wrong(op, name, "none", "a tensor");
}

DType dtype_of(std::string_view op, const std::string& name, const Tensor& t) {
  for (const TorchType& row : kTorchTypes)
    if (row.scalar == t.scalar_type()) return row.type;
  wrong(op, name, torch::headeronly::toString(t.scalar_type()),
        names_of_dtypes(&DTypeRow::long_name));
}

Item item_of(std::string_view op, const std::string& name, const Tensor& t, bool adds) {
  for (const TorchItem& row : kTorchItems)
    if (row.scalar == t.scalar_type()) return row.item;
  const std::string got = torch::headeronly::toString(t.scalar_type());
  if (adds) {
    std::string all;
    for (const TorchItem& row : kTorchItems) {
      all += all.empty() ? "" : ", ";
      all += torch::headeronly::toString(row.scalar);
    }
    wrong(op, name, got, "one of " + all);
  }
  for (const ItemRow& row : kItems)
    if (row.bytes == t.element_size()) return row.item;
  wrong(op, name, got, "a type of 1, 2, 4 or 8 bytes");
}

Tensor empty_beside(const Tensor& like, std::span<const int64_t> size,
                    std::span<const int64_t> strides, std::optional<ScalarType> type) {
  // torch::stable::new_empty asks the dispatcher by name, which takes some 3 us longer.
  const auto dtype = static_cast<int32_t>(type.value_or(like.scalar_type()));
  int32_t device = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device));
  AtenTensorHandle made = nullptr;
  if (aoti_torch_empty_strided(static_cast<int64_t>(size.size()), size.data(), strides.data(),
                               dtype, device, like.get_device_index(), &made) != AOTI_TORCH_SUCCESS)
    throw Error(ErrorKind::system, "no memory for a tensor " + shape_of(size) + " of " +
                                       torch::headeronly::toString(static_cast<ScalarType>(dtype)) +
                                       ": free some, or call with fewer rows");
  return Tensor(made);
}

std::vector<int64_t> dense_strides(std::span<const int64_t> size) {
  std::vector<int64_t> strides(size.size());
  int64_t stride = 1;
  for (std::size_t d = size.size(); d-- > 0; stride *= std::max<int64_t>(size[d], 1))
    strides[d] = stride;
  return strides;
}

Tensor empty_dense(const Tensor& like, std::span<const int64_t> size, ScalarType type) {
  return empty_beside(like, size, dense_strides(size), type);
}

void require_shaped(std::string_view op, const std::string& name, const Tensor& t,
                    std::span<const int64_t> size, ScalarType type) {
  if (t.scalar_type() != type) {
    wrong(op, name, torch::headeronly::toString(t.scalar_type()),
          torch::headeronly::toString(type));
  }
  const auto got = t.sizes();
  if (!std::equal(got.begin(), got.end(), size.begin(), size.end()))
    wrong(op, name, shape_of(t), shape_of(size));
}

void require_result(std::string_view op, const std::string& name, const Tensor& t,
                    std::span<const int64_t> size, ScalarType type) {
  require_shaped(op, name, t, size, type);
  if (overlaps_itself(t))
    wrong(op, name + ": its elements overlap in memory: pass a tensor without overlaps");
}

bool overlaps_itself(const Tensor& t) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (t.size(d) == 0) return false;
    if (t.size(d) > 1) dims.emplace_back(t.stride(d), t.size(d));
  }
  std::sort(dims.begin(), dims.end());
  int64_t last = 0;  // of the elements that the dimensions so far reach
  for (const auto& [stride, size] : dims) {
    if (stride <= last) return true;
    last += stride * (size - 1);
  }
  return false;
}

void require_place(std::string_view op, const std::string& name, const Tensor& t, Device device) {
  require_tensor(op, name, t);
  if (device == Device::cuda ? t.is_cuda() : t.is_cpu()) return;
  const std::string where = t.is_cuda() ? "cuda" : t.is_cpu() ? "cpu" : "another device";
  wrong(op, name, "a tensor on " + where, "one on " + std::string(name_of(device)) + ", like x");
}

Activation activation_of(std::string_view op, const std::string& name) {
  for (const auto a : {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::silu,
                       Activation::swiglu}) {
    if (name_of(a) == name) return a;
  }
  wrong(op, "activation", '"' + name + '"', "none, gelu, gelu_tanh, silu or swiglu");
}

Matrix matrix_of(std::string_view op, const std::string& name, const Tensor& t, Device device) {
  require_place(op, name, t, device);
  if (t.dim() != 1 && t.dim() != 2) wrong(op, name, shape_of(t), "one or two dimensions");
  const DType dtype = dtype_of(op, name, t);
  const Tensor matrix = t.dim() == 2 ? t : torch::stable::unsqueeze(t, 0);
  if (readable(matrix, dtype, device)) return {matrix, view_of(matrix, dtype)};
  Tensor copy = staging(matrix, dtype, matrix.size(0), matrix.size(1), device);
  copy_(copy, matrix);
  return {copy, view_of(copy, dtype)};
}

Rows rows_of(std::string_view op, const Tensor& x, int64_t dim) {
  require_tensor(op, "x", x);
  const int64_t dims = x.dim();
  if (dims < 2) wrong(op, "x", shape_of(x), "at least two dimensions");
  const int64_t at = dim < 0 ? dim + dims : dim;
  if (at < 0 || at >= dims - 1) {
    wrong(op, "dim", std::to_string(dim), "0 to " + std::to_string(dims - 2) + ", not the last");
  }
  Rows r{x, x, at == 0 ? x : transpose(x, 0, at), x.size(at), 1, at};
  for (int64_t d = 0; d + 1 < dims; ++d) {
    if (d != at) r.inner *= x.size(d);
  }
  if (dims > 2 || at != 0) {
    const std::array<int64_t, 2> size{r.units * r.inner, x.size(dims - 1)};
    r.matrix = reshape(r.swapped, size);
  }
  return r;
}

Result::Result(const Rows& x, int64_t units, int64_t cols, Device device) {
  const auto dims = static_cast<std::size_t>(x.tensor.dim());
  const auto dim = static_cast<std::size_t>(x.dim);
  std::vector<int64_t> size(dims), strides(dims);
  for (std::size_t d = 0; d < dims; ++d) size[d] = x.swapped.size(static_cast<int64_t>(d));
  size.front() = units;
  size.back() = cols;
  int64_t stride = 1;
  for (std::size_t d = dims; d-- > 0; stride *= std::max<int64_t>(size[d], 1)) strides[d] = stride;
  std::swap(size[0], size[dim]);
  std::swap(strides[0], strides[dim]);
  tensor_ = empty_beside(x.tensor, size, strides);
  stage_or_take("", x, device);
}

Result::Result(std::string_view op, const std::string& name, const Tensor& given, const Rows& x,
               int64_t units, int64_t cols, Device device)
    : tensor_(given) {
  require_place(op, name, given, device);
  dtype_of(op, name, given);
  bool fits = given.dim() == x.swapped.dim();
  for (int64_t d = 0; fits && d < given.dim(); ++d) {
    const bool last = d + 1 == given.dim();
    fits = given.size(d) == (last ? cols : d == x.dim ? units : x.tensor.size(d));
  }
  if (!fits) {
    wrong(op, name, shape_of(given),
          std::to_string(units) + " in dimension " + std::to_string(x.dim) + ", " +
              std::to_string(cols) + " in the last, the other dimensions as in x");
  }
  if (overlaps_itself(given)) {
    wrong(op, name + ": its elements overlap in memory: pass a tensor without overlaps");
  }
  stage_or_take(op, x, device);
}

void Result::stage_or_take(std::string_view op, const Rows& x, Device device) {
  const DType dtype = dtype_of(op, "x", tensor_);
  const Rows rows = rows_of(op, tensor_, x.dim);
  const bool in_place =
      tensor_.numel() == 0 || (rows.matrix.const_data_ptr() == tensor_.const_data_ptr() &&
                               readable(rows.matrix, dtype, device));
  matrix_.tensor = in_place
                       ? rows.matrix
                       : staging(tensor_, dtype, rows.matrix.size(0), rows.matrix.size(1), device);
  matrix_.view = view_of(matrix_.tensor, dtype);
  if (!in_place) copy_to_ = rows.swapped;
}

Tensor Result::finish() {
  if (copy_to_) {
    std::vector<int64_t> size;
    for (int64_t d = 0; d < copy_to_->dim(); ++d) size.push_back(copy_to_->size(d));
    copy_(*copy_to_, reshape(matrix_.tensor, size));
  }
  return tensor_;
}

}  // namespace tilelace::torch_binding
