// SPDX-License-Identifier: Apache-2.0
// Operands of a problem that is tuned: random values, copies of them that L2 does not hold
// together, and what a result should be.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tilelace/communicator.h"
#include "tilelace/ops.h"

namespace tilelace::op {

/// What plans depend on, of a problem: the rest is as simple as can be.
Problem tuned_part(const Problem&);

/// What one value of random operands is: the same wherever it is asked for.
class TuneValues {
 public:
  TuneValues();
  /// Element i of a rank's tensor, number 0 its input, from 1 on its weights; rounded to the type.
  [[nodiscard]] float at(DType, int rank, int tensor, std::int64_t i) const;
  /// The first elements, as the type has them.
  [[nodiscard]] std::string bytes(DType, int rank, int tensor, std::int64_t count) const;

 private:
  std::vector<float> values_;
};

class TuneOperands {
 public:
  /// Errors: system (memory), usage.
  TuneOperands(Communicator&, const Problem&, const TuneValues&);

  /// A call's arguments, the i-th of a graph. As long as this lives.
  [[nodiscard]] CallArgs call(int i, void* stream) const;
  /// Fills the first results with NaNs.
  void poison();
  /// Empty: some rows of the first results, of every shard, are what they should be; else what is
  /// not. The stream's work is done.
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
  /// The product's element, summed over ranks where the op sums, and how far it may be off.
  [[nodiscard]] Expected product(int weight, std::int64_t row, std::int64_t col) const;

  Communicator& member_;
  Problem problem_;
  const TuneValues& values_;
  std::vector<DeviceBuffer> memory_;
  std::vector<Set> sets_;
  std::vector<std::size_t> out_memory_;  ///< of the first set's results
  std::map<int, std::string> made_;      ///< while sets are made: what tensors begin with
};

}  // namespace tilelace::op
