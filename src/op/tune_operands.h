// SPDX-License-Identifier: Apache-2.0
// Operands for tuning a problem, with random values, and the expected result. Calls use copies of
// the operands in turn. There are enough copies to exceed L2, up to a limit.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tilelace/communicator.h"
#include "tilelace/ops.h"

namespace tilelace::op {

/// The part of the problem on which plans depend; a bias, for example, is left out.
Problem tuned_part(const Problem&);

/// The random values of operands. Every rank can compute the values of every rank's tensors.
class TuneValues {
 public:
  TuneValues();
  /// Element i of a rank's tensor, times `scale` (a power of two), rounded to the type. Tensor 0 is
  /// the input; tensors 1, 2, ... are weights.
  [[nodiscard]] float at(DType, int rank, int tensor, std::int64_t i, float scale = 1) const;
  /// The first `count` elements of a rank's tensor, as bytes of the type. Values are periodic, and
  /// this returns at most one period, even if `count` is larger.
  [[nodiscard]] std::string bytes(DType, int rank, int tensor, std::int64_t count,
                                  float scale = 1) const;

 private:
  std::vector<float> values_;
};

/// Fills a buffer with `elements` elements by repeating the bytes `first`.
void fill_rounds(DeviceBuffer&, const std::string& first, std::int64_t elements, DType);
/// Fills a buffer with NaNs.
void fill_nans(DeviceBuffer&);
/// How many copies of this size together exceed L2, limited to a fixed maximum.
std::int64_t copies_beyond_l2(std::int64_t bytes);

class TuneOperands {
 public:
  /// Errors: system (memory), usage.
  TuneOperands(Communicator&, const Problem&, const TuneValues&);

  /// Arguments of the i-th call of a graph. Valid as long as this object.
  [[nodiscard]] CallArgs call(int i, void* stream) const;
  /// Fills the first copy of the results with NaNs.
  void poison();
  /// Checks some rows of every shard of the first copy of the results. Returns what is wrong, or an
  /// empty text. The stream's work must have finished.
  [[nodiscard]] std::string wrong() const;

 private:
  struct Set {
    TensorView input;
    std::vector<TensorView> weights, out;
  };
  [[nodiscard]] std::int64_t rows_at(int rank) const;
  [[nodiscard]] std::int64_t begin_of(int rank) const;
  TensorView add(std::int64_t rows, std::int64_t cols, int tensor);
  [[nodiscard]] std::string wrong_row(std::size_t output, std::int64_t row) const;
  struct Expected {
    double value = 0, bound = 0;
  };
  [[nodiscard]] Expected expected(std::size_t output, std::int64_t row, std::int64_t col) const;
  /// One weight's expected element, summed over ranks if the op sums, and the element's tolerance.
  [[nodiscard]] Expected product(int weight, std::int64_t row, std::int64_t col) const;

  Communicator& member_;
  Problem problem_;
  const TuneValues& values_;
  std::vector<DeviceBuffer> memory_;
  std::vector<Set> sets_;
  std::vector<std::size_t> out_memory_;  ///< indices of the results' first copy in memory_
  std::map<int, std::string> made_;      ///< each tensor's first elements; empty after construction
};

}  // namespace tilelace::op
