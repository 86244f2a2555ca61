// SPDX-License-Identifier: Apache-2.0
// Operands of conformance runs: exact or random values in guarded, poisoned memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cases.h"
#include "tilelace/tensor.h"

namespace tilelace::conformance {

/// A matrix amid guard bytes. Everything that is not written on purpose holds the poison (a NaN).
class GuardedTensor {
 public:
  GuardedTensor() = default;
  /// `pad` and `offset` in 16-byte units: stride beyond the row, start off a cache line.
  GuardedTensor(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t pad,
                std::int64_t offset);

  [[nodiscard]] const TensorView& view() const { return view_; }
  void poison();
  void set(std::int64_t row, std::int64_t col, float value);
  [[nodiscard]] float get(std::int64_t row, std::int64_t col) const;
  [[nodiscard]] std::byte* bytes(std::int64_t row, std::int64_t col);
  /// Whether all bytes outside the matrix (guards, stride slack) still hold the poison.
  [[nodiscard]] bool guards_intact() const;

 private:
  std::vector<std::byte> memory_;
  TensorView view_;
  std::size_t first_ = 0;  ///< byte of the first element
};

/// What fills the operands of a call.
enum class Fill : std::uint8_t {
  exact,   ///< {-1, 0, 1}, few non-zeros a row: sums are exact in every type
  normal,  ///< about N(0, 1): every bit pattern of a number is likely
};

/// Element (row, col) of the dense operand; the same whoever asks. `limit` non-zeros a row (exact).
class Source {
 public:
  Source(Fill fill, std::uint64_t seed, std::int64_t cols, std::int64_t limit);
  /// A row's values, `cols` of them.
  [[nodiscard]] std::vector<float> row(std::int64_t row) const;

 private:
  Fill fill_;
  std::uint64_t seed_;
  std::int64_t cols_;
  std::int64_t limit_;
};

/// Fills rows [0, view.rows) with the source's rows from `first` on.
void fill(GuardedTensor& tensor, const Source& source, std::int64_t first);

}  // namespace tilelace::conformance
