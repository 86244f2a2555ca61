// SPDX-License-Identifier: Apache-2.0
// The tensors of a gemm_rs or gemm_ar call as a user has them, and what they must come to.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "api/member.h"

namespace tilelace::gpu_test {

/// Every rank makes all ranks' operands itself; results lie between guards.
class SumTensors {
 public:
  /// `exact`: small integers, results bit for bit. `reachable`: results in symmetric memory.
  /// Collective if so.
  SumTensors(Member& member, const Problem& problem, bool exact, bool reachable = false);
  /// How often a rank's part of a sum is rounded on its way; else once.
  void expect_roundings(int roundings) { roundings_ = roundings; }

  /// New inputs (the same seed on every rank), poisoned results; enqueued on the member's stream.
  void fill(std::uint64_t seed);
  [[nodiscard]] GemmReduceArgs args() const;
  /// Of a product alone: the rank's own partial.
  [[nodiscard]] GemmReduceArgs product_args() const;
  /// Of a collective alone: the partial is the input.
  [[nodiscard]] GemmReduceArgs collective_args() const;
  [[nodiscard]] Preparation preparation(const PlanOptions& options = {}) const;
  void call(const GemmReduceArgs& args, const PlanOptions& options = {}) const;
  void call(const PlanOptions& options = {}) const { call(args(), options); }

  /// The stream's work must be done.
  [[nodiscard]] Finding check() const;
  [[nodiscard]] Finding check_partial() const;
  /// Unless no result has been written.
  [[nodiscard]] Finding check_untouched() const;
  /// A number for the bits of the result.
  [[nodiscard]] std::uint64_t hash() const;

 private:
  [[nodiscard]] Finding check_guards() const;

  Member& member_;
  Problem problem_;
  bool exact_;
  int roundings_ = 1;
  std::int64_t first_ = 0, rows_ = 0;  ///< of the result
  DeviceBuffer inputs_, weights_, bias_, partial_, residual_;
  std::optional<DeviceBuffer> own_results_;
  std::optional<SymmetricBuffer> reachable_results_;
  std::byte* results_ = nullptr;  ///< in one of them
  std::size_t results_bytes_ = 0;
  TensorView x_, weight_, out_;
};

/// gemm_rs or gemm_ar of these sizes, bf16.
Problem sum_problem_of(Op op, int ranks, std::int64_t m, std::int64_t n, std::int64_t k);

/// Whether every rank has the same number. Collective.
Finding equal_on_ranks(Member& member, std::uint64_t mine, const std::string& what);

}  // namespace tilelace::gpu_test
