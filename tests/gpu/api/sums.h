// SPDX-License-Identifier: Apache-2.0
// The tensors of a gemm_rs or gemm_ar call as users make them, and their expected results.
#pragma once
#include <cstdint>
#include <string>

#include "api/member.h"

namespace tilelace::gpu_test {

class SumTensors : public CallOperands {
 public:
  using Args = GemmReduceArgs;
  /// `reachable`: results are in symmetric memory; then the constructor is collective.
  SumTensors(Member& member, const Problem& problem, bool exact, bool reachable = false);

  void fill(std::uint64_t seed);
  [[nodiscard]] GemmReduceArgs args() const;
  /// Arguments for the GEMM alone, which gives this rank's partial.
  [[nodiscard]] GemmReduceArgs product_args() const;
  /// Arguments for the collective alone, whose input is the partial.
  [[nodiscard]] GemmReduceArgs collective_args() const;
  void call(const GemmReduceArgs& args, const PlanOptions& options = {}) const;
  void call(const PlanOptions& options = {}) const override { call(args(), options); }

  [[nodiscard]] Finding check_partial() const;
  /// A hash of the result's bits.
  [[nodiscard]] std::uint64_t hash() const;

 private:
  DeviceBuffer partial_;
};

/// The problem of a gemm_rs or gemm_ar of these sizes, in bf16.
Problem sum_problem_of(Op op, int ranks, std::int64_t m, std::int64_t n, std::int64_t k);

/// Returns a finding unless the number is equal on all ranks. Collective.
Finding equal_on_ranks(Member& member, std::uint64_t mine, const std::string& what);

}  // namespace tilelace::gpu_test
