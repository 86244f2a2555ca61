// SPDX-License-Identifier: Apache-2.0
// Checks a rank's results against the unsharded product.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "operands.h"

namespace tilelace::cli {

/// The rows that are compared with an fp64 reference, sorted: all if there are few, else the first
/// and the last row of every shard and some random rows.
std::vector<std::int64_t> sample_rows(std::int64_t m, int ranks);

/// Checks results of calls. The result tensors must have been filled with NaNs before the call. The
/// first failure and the sums of errors go into the RankPart.
class Verifier {
 public:
  /// `tick` is called during long checks, to show that the rank is alive.
  Verifier(const Workload& work, const Job& job, int rank, std::function<void()> tick)
      : work_(work), job_(job), rank_(rank), tick_(std::move(tick)) {}

  /// Checks that results of integer inputs are exact: in every row, or only in sampled rows if that
  /// would take too long.
  void check_integers(const CallTensors& t, RankPart& part) const;
  /// Checks all columns of the sampled rows against an fp64 reference with error bounds. run(i)
  /// makes the call with plan ways[i]; plans that round alike share a reference. The error sums
  /// of ways[0] go into the part.
  void check_fp64(const CallTensors& t, const std::vector<Plan>& ways,
                  const std::function<void(std::size_t)>& run, RankPart& part) const;
  /// Checks the gathered rows, bit for bit.
  void check_gathered(const CallTensors& t, RankPart& part) const;

 private:
  /// [way][output]: what the call with that plan wrote into the sampled rows of that output.
  using Results = std::vector<std::vector<model::Matrix>>;
  /// The numbers of the sampled rows that this rank checks, and these rows of the unsharded
  /// operand.
  struct Sample {
    std::vector<std::int64_t> rows;
    model::Matrix operand;
  };
  [[nodiscard]] std::vector<std::int64_t> own_rows(const CallTensors& t) const;
  [[nodiscard]] Sample sample(const CallTensors& t) const;
  /// Checks the columns `local` of this rank's output number `output`, for every plan in `ways`.
  void check_columns(const Sample& sample, std::size_t output, model::Slice local,
                     const std::vector<Plan>& ways, const Results& got, RankPart& part) const;
  void fail(bool& flag, RankPart& part, const std::string& what) const;

  const Workload& work_;
  const Job& job_;
  int rank_;
  std::function<void()> tick_;
};

/// A hash of all elements of the rank's first output, in order.
std::uint64_t hash_result(const CallTensors& t);

}  // namespace tilelace::cli
