// SPDX-License-Identifier: Apache-2.0
// Operands of conformance runs: exact or random values in guarded, poisoned memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cases.h"
#include "tilelace/tensor.h"
#include "values.h"

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

/// The values of a dense operand with so many columns; the same whoever asks.
struct Source {
  Fill fill = Fill::exact;
  std::uint64_t seed = 0;
  int per_row = 0;  ///< non-zeros (exact)
};

/// Fills it with the source's rows from `first` on.
void fill(GuardedTensor& tensor, const Source& source, std::int64_t first);

/// test::judge on the host, of operands and results in host memory. A result that is zero is +0 in
/// every order of adding: with `exact`, -0 is wrong.
test::Judgement judge(const test::Judged&, bool exact);

}  // namespace tilelace::conformance
