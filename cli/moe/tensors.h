// SPDX-License-Identifier: Apache-2.0
// Tensors of a rank that times layers of experts. They are in the memory of the rank's device.
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
  /// Fills the tensor with repetitions of `pattern`. Local; synchronize before calls read it.
  void fill(const std::vector<std::byte>& pattern);

  DeviceBuffer memory_;
  DType dtype_;
  std::int64_t rows_, cols_;
};

/// A tensor of random elements that repeat after a prime number of elements. So the host's table of
/// elements is small, and yet a row at a wrong place has wrong elements.
class RandomTensor : public RankTensor {
 public:
  RandomTensor(Communicator& member, DType dtype, std::int64_t rows, std::int64_t cols,
               std::uint32_t seed, double scale);
  /// A row as floats, computed from the host's table.
  [[nodiscard]] std::vector<float> row(std::int64_t r) const;

 private:
  std::vector<float> table_;
};

/// A tensor into which calls write their results.
class ResultTensor : public RankTensor {
 public:
  using RankTensor::RankTensor;
  /// Makes every element a NaN, so that checks find elements that no call wrote.
  void spoil();
  /// A row as floats, read from the tensor's memory. Synchronize first.
  [[nodiscard]] std::vector<float> row(std::int64_t r) const;
};

}  // namespace tilelace::cli
