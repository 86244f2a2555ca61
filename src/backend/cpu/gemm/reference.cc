// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/gemm/reference.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/gemm/convert.h"
#include "backend/cpu/gemm/micro_kernel.h"
#include "core/check.h"
#include "core/half.h"

namespace tilelace::cpu {
namespace {

constexpr std::int64_t kStrip = kLanes<double>;
constexpr std::int64_t kRowBlock = 96;  // 96 x 256 doubles stay in the L2 cache
constexpr std::int64_t kDepthBlock = 256;

// dst[r * row_step + i * element_step] = source[first_row + r, first_col + i], or its magnitude.
void unpack(const TensorView& source, std::int64_t first_row, std::int64_t rows,
            std::int64_t first_col, std::int64_t cols, bool magnitude, double* dst,
            std::int64_t row_step, std::int64_t element_step) {
  float row[kDepthBlock];
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t from = (first_row + r) * source.stride + first_col;
    to_float(element(source.data, source.dtype, from), source.dtype, cols, row);
    for (std::int64_t i = 0; i < cols; ++i)
      dst[r * row_step + i * element_step] = magnitude ? std::fabs(row[i]) : row[i];
  }
}

// y += |a| * |w|^T or a * w^T.
void accumulate_product(const TensorView& a, const TensorView& w, double* y, bool magnitude) {
  const std::int64_t n = w.rows;
  const std::int64_t strips = (n + kStrip - 1) / kStrip;
  std::vector<double> packed(static_cast<std::size_t>(strips * kDepthBlock * kStrip));
  std::vector<double> block(static_cast<std::size_t>(kRowBlock * kDepthBlock));
  std::vector<double> sums(static_cast<std::size_t>(kRowBlock * kStrip));
  for (std::int64_t depth = 0; depth < a.cols; depth += kDepthBlock) {
    const std::int64_t k = std::min(kDepthBlock, a.cols - depth);
    for (std::int64_t s = 0; s < strips; ++s)
      unpack(w, s * kStrip, std::min(kStrip, n - s * kStrip), depth, k, magnitude,
             packed.data() + s * kDepthBlock * kStrip, 1, kStrip);
    for (std::int64_t first = 0; first < a.rows; first += kRowBlock) {
      const std::int64_t rows = std::min(kRowBlock, a.rows - first);
      unpack(a, first, rows, depth, k, magnitude, block.data(), kDepthBlock, 1);
      for (std::int64_t s = 0; s < strips; ++s) {
        multiply_panel(block.data(), kDepthBlock, rows, packed.data() + s * kDepthBlock * kStrip, k,
                       sums.data(), kStrip);
        const std::int64_t width = std::min(kStrip, n - s * kStrip);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < width; ++c)
            y[(first + r) * n + s * kStrip + c] += sums[static_cast<std::size_t>(r * kStrip + c)];
      }
    }
  }
}

}  // namespace

void reference_gemm(const TensorView& a, const TensorView& w, double* y, double* abs_sum,
                    bool accumulate) {
  require(a.cols == w.cols, "gemm reference: k: got {} and {}, expected two equal numbers", a.cols,
          w.cols);
  for (double* target : {y, abs_sum}) {
    if (target == nullptr) continue;
    if (!accumulate) std::fill_n(target, a.rows * w.rows, 0.0);
    accumulate_product(a, w, target, target == abs_sum);
  }
}

GemmReference::GemmReference(std::int64_t rows, std::int64_t cols) : rows_(rows), cols_(cols) {
  const auto size = static_cast<std::size_t>(rows * cols);
  value_.resize(size);
  abs_sum_.resize(size);
  rounded_sum_.resize(size);
}

void GemmReference::add(const TensorView& a, const TensorView& w, bool rounded) {
  require(a.rows == rows_ && w.rows == cols_,
          "gemm reference: block: got {} x {}, expected {} x {}", a.rows, w.rows, rows_, cols_);
  std::vector<double> partial(value_.size());
  reference_gemm(a, w, partial.data(), nullptr, true);
  accumulate_product(a, w, abs_sum_.data(), true);
  for (std::size_t i = 0; i < partial.size(); ++i) {
    value_[i] += partial[i];
    if (rounded) rounded_sum_[i] += std::fabs(partial[i]);
  }
}

void GemmReference::add_bias(const void* bias, DType dtype) {
  if (bias == nullptr) return;
  for (std::int64_t r = 0; r < rows_; ++r) {
    for (std::int64_t c = 0; c < cols_; ++c) {
      const double b = load_element(bias, dtype, c);
      value_[static_cast<std::size_t>(r * cols_ + c)] += b;
      abs_sum_[static_cast<std::size_t>(r * cols_ + c)] += std::fabs(b);
    }
  }
}

void GemmReference::add(const TensorView& residual) {
  require(residual.rows == rows_ && residual.cols == cols_,
          "gemm reference: residual: got {} x {}, expected {} x {}", residual.rows, residual.cols,
          rows_, cols_);
  for (std::int64_t r = 0; r < rows_; ++r) {
    for (std::int64_t c = 0; c < cols_; ++c) {
      const double x = load_element(residual.data, residual.dtype, r * residual.stride + c);
      value_[static_cast<std::size_t>(r * cols_ + c)] += x;
      abs_sum_[static_cast<std::size_t>(r * cols_ + c)] += std::fabs(x);
    }
  }
}

}  // namespace tilelace::cpu
