// SPDX-License-Identifier: Apache-2.0
// Memory for the operands of CPU ranks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "conformance/operands.h"

namespace tilelace::conformance {

/// Host memory, which make() fills with poison (kPoison).
class HostPlace : public test::Place {
 public:
  std::byte* make(std::size_t bytes) override;
  void fill(const TensorView& to, const test::Source& source, std::int64_t first_row) override;
  void set(void* data, std::uint8_t value, std::size_t bytes) override;
  /// With `exact`, a result of -0 is wrong, since a zero sum is +0 in every order of additions.
  test::Judgement judge(const test::Judged& judged, bool exact) override;
  test::Difference compare(const void* got, const void* expected, DType type,
                           std::size_t count) override;
  std::uint64_t count_unpoisoned(const void* data, std::size_t bytes) override;
  /// Frees all memory that make() has returned.
  void clear() { memory_.clear(); }

 private:
  std::vector<std::vector<std::byte>> memory_;
};

/// The address of an element of a tensor in host memory.
std::byte* at(const TensorView& t, std::int64_t row, std::int64_t col);
float get(const TensorView& t, std::int64_t row, std::int64_t col);
void set(const TensorView& t, std::int64_t row, std::int64_t col, float value);

}  // namespace tilelace::conformance
