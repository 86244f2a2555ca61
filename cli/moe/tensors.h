// SPDX-License-Identifier: Apache-2.0
// Tensors of a rank that times layers of experts, in the memory that its device reads.
#pragma once
#include <cstdint>
#include <vector>

#include "tilelace/communicator.h"
#include "tilelace/tensor.h"

namespace tilelace::cli {

/// A dense tensor.
class RankTensor {
 public:
  RankTensor(Communicator& member, DType dtype, std::int64_t rows, std::int64_t cols);
  [[nodiscard]] TensorView view() const { return rows(0, rows_); }
  [[nodiscard]] TensorView rows(std::int64_t begin, std::int64_t count) const;

 protected:
  /// Fills it with these bytes, again and again. Local; synchronize before calls read it.
  void fill(const std::vector<std::byte>& pattern);

  DeviceBuffer memory_;
  DType dtype_;
  std::int64_t rows_, cols_;
};

/// Random elements, which repeat after a prime number of them: tables are small, and no displaced
/// row looks right.
class RandomTensor : public RankTensor {
 public:
  RandomTensor(Communicator& member, DType dtype, std::int64_t rows, std::int64_t cols,
               std::uint32_t seed, double scale);
  /// A row as floats; from the host's table.
  [[nodiscard]] std::vector<float> row(std::int64_t r) const;

 private:
  std::vector<float> table_;
};

/// What calls write.
class ResultTensor : public RankTensor {
 public:
  using RankTensor::RankTensor;
  /// Makes every element a NaN, so that what no call writes is not right.
  void spoil();
  /// A row as floats, as it is in memory: synchronize before.
  [[nodiscard]] std::vector<float> row(std::int64_t r) const;
};

}  // namespace tilelace::cli
