// SPDX-License-Identifier: Apache-2.0
// Is what this rank got the unsharded product?
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "operands.h"

namespace tilelace::cli {

/// Rows that are compared with fp64: all when there are few, else the first and the last of every
/// shard and random others. Sorted.
std::vector<std::int64_t> sample_rows(std::int64_t m, int ranks);

/// Compares what the last poisoned call left in the tensors; each adds to the part: a failure with
/// its first complaint, error sums.
class Verifier {
 public:
  /// `tick` is called now and then.
  Verifier(const Workload& work, const Job& job, int rank, std::function<void()> tick)
      : work_(work), job_(job), rank_(rank), tick_(std::move(tick)) {}

  /// The integer check: every row, or the sampled ones where that would take too long.
  void check_integers(const CallTensors& t, RankPart& part) const;
  /// fp64 bounds on the sampled rows, all columns. `ways` results are checked against one
  /// reference: run(i) makes the i-th call; error sums are those of the first.
  void check_fp64(const CallTensors& t, const std::vector<Plan>& ways,
                  const std::function<void(std::size_t)>& run, RankPart& part) const;
  /// The delivered gather, bit for bit.
  void check_gathered(const CallTensors& t, RankPart& part) const;

 private:
  /// What each way left in the sampled rows of each output.
  using Results = std::vector<std::vector<model::Matrix>>;
  /// Sampled rows: of the unsharded result, and of the unsharded operand.
  struct Sample {
    std::vector<std::int64_t> rows;
    model::Matrix operand;
  };
  [[nodiscard]] std::vector<std::int64_t> own_rows(const CallTensors& t) const;
  [[nodiscard]] Sample sample(const CallTensors& t) const;
  /// Columns [first, first + count) of the rank's output.
  void check_columns(const Sample& sample, std::size_t output, model::Slice local,
                     const std::vector<Plan>& ways, const Results& got, RankPart& part) const;
  void fail(bool& flag, RankPart& part, const std::string& what) const;

  const Workload& work_;
  const Job& job_;
  int rank_;
  std::function<void()> tick_;
};

/// Of all elements of the rank's first output, in order.
std::uint64_t hash_result(const CallTensors& t);

}  // namespace tilelace::cli
