// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/gemm/expert_gemm.h"

#include <algorithm>

#include "backend/cpu/gemm/convert.h"
#include "backend/cpu/gemm/epilogue.h"
#include "backend/cpu/gemm/micro_kernel.h"

namespace tilelace::cpu {
namespace {

constexpr std::int64_t kStrip = kLanes<float>;
constexpr std::int64_t kRows = 48;  // a multiple of the register tile's

Activation plain(ExpertActivation a) {
  switch (a) {
    case ExpertActivation::none: return Activation::none;
    case ExpertActivation::gelu: return Activation::gelu;
    case ExpertActivation::gelu_tanh: return Activation::gelu_tanh;
    case ExpertActivation::silu: return Activation::silu;
    case ExpertActivation::swiglu:
    case ExpertActivation::swiglu_clamped: return Activation::swiglu;
  }
  return Activation::none;
}

/// The weight's row for a column of the result: of a gated one there are two.
std::int64_t weight_row(const ExpertProduct& p, std::int64_t col, bool second) {
  if (p.activation == ExpertActivation::swiglu_clamped) return 2 * col + (second ? 1 : 0);
  return col + (second ? p.out.cols : 0);
}

}  // namespace

void ExpertGemm::prepare(std::int64_t k) {
  const auto grow = [](std::vector<float>& v, std::int64_t size) {
    v.resize(std::max(v.size(), static_cast<std::size_t>(size)));
  };
  for (auto& panel : panels_) grow(panel, kCols * k);
  grow(rows_, kRows * k);
  for (auto& sums : sums_) grow(sums, kRows * kCols);
  grow(weight_row_, k);
  grow(scales_, kRows);
}

void ExpertGemm::pack(const ExpertProduct& p, std::int64_t first, std::int64_t cols, bool second) {
  const std::int64_t k = p.x.cols;
  float* const row = weight_row_.data();
  for (std::int64_t c = 0; c < cols; ++c) {
    const std::int64_t at = weight_row(p, first + c, second) * p.weight.stride;
    to_float(element(p.weight.data, p.weight.dtype, at), p.weight.dtype, k, row);
    float* strip = panels_[second ? 1 : 0].data() + c / kStrip * k * kStrip + c % kStrip;
    for (std::int64_t i = 0; i < k; ++i) strip[i * kStrip] = row[i];
  }
}

void ExpertGemm::multiply(const ExpertProduct& p, std::int64_t first_row, std::int64_t rows,
                          std::int64_t cols, bool gated) {
  const std::int64_t k = p.x.cols;
  for (std::int64_t r = 0; r < rows; ++r)
    to_float(element(p.x.data, p.x.dtype, (first_row + r) * p.x.stride), p.x.dtype, k,
             rows_.data() + r * k);
  for (int half = 0; half < (gated ? 2 : 1); ++half)
    for (std::int64_t strip = 0; strip * kStrip < cols; ++strip)
      multiply_panel(rows_.data(), k, rows, panels_[half].data() + strip * k * kStrip, k,
                     sums_[half].data() + strip * kStrip, kCols);
}

const float* ExpertGemm::row_scales(const ExpertProduct& p, std::int64_t first, std::int64_t rows) {
  if (p.scales == nullptr) return nullptr;
  for (std::int64_t r = 0; r < rows; ++r)
    scales_[static_cast<std::size_t>(r)] =
        p.scales[p.sources == nullptr ? first + r : p.sources[first + r]];
  return scales_.data();
}

void ExpertGemm::run(const ExpertProduct& p, std::int64_t part) {
  const std::int64_t first = part * kCols, cols = std::min(kCols, p.out.cols - first);
  const bool gated = row_of(p.activation).gated;
  pack(p, first, cols, false);
  if (gated) pack(p, first, cols, true);
  Epilogue epilogue;
  epilogue.activation = plain(p.activation);
  epilogue.clamped = p.activation == ExpertActivation::swiglu_clamped;
  epilogue.dtype = p.out.dtype;
  // Biases of the part's columns, side by side; of interleaved rows they are not.
  const std::size_t bytes = size_of(p.out.dtype);
  alignas(64) char biases[2][kCols * sizeof(double)];
  for (int half = 0; half < (gated ? 2 : 1) && p.bias != nullptr; ++half) {
    for (std::int64_t c = 0; c < cols; ++c)
      std::copy_n(static_cast<const char*>(
                      element(p.bias, p.out.dtype, weight_row(p, first + c, half == 1))),
                  bytes, biases[half] + static_cast<std::size_t>(c) * bytes);
    (half == 0 ? epilogue.bias : epilogue.bias2) = biases[half];
  }
  for (std::int64_t r = 0; r < p.x.rows; r += kRows) {
    const std::int64_t rows = std::min(kRows, p.x.rows - r);
    multiply(p, r, rows, cols, gated);
    epilogue.row_scales = row_scales(p, r, rows);
    store_tile(epilogue, sums_[0].data(), sums_[1].data(), kCols, rows, cols,
               element(p.out.data, p.out.dtype, r * p.out.stride + first), p.out.stride);
  }
}

}  // namespace tilelace::cpu
