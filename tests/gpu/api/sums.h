// SPDX-License-Identifier: Apache-2.0
// The tensors of a gemm_rs or gemm_ar call as a user has them, and what they must come to.
#pragma once
#include <cstdint>
#include <string>

#include "api/member.h"

namespace tilelace::gpu_test {

class SumTensors : public CallOperands {
 public:
  using Args = GemmReduceArgs;
  /// `reachable`: results in symmetric memory. Collective if so.
  SumTensors(Member& member, const Problem& problem, bool exact, bool reachable = false);

  void fill(std::uint64_t seed);
  [[nodiscard]] GemmReduceArgs args() const;
  /// Of a product alone: the rank's own partial.
  [[nodiscard]] GemmReduceArgs product_args() const;
  /// Of a collective alone: the partial is the input.
  [[nodiscard]] GemmReduceArgs collective_args() const;
  void call(const GemmReduceArgs& args, const PlanOptions& options = {}) const;
  void call(const PlanOptions& options = {}) const override { call(args(), options); }

  [[nodiscard]] Finding check_partial() const;
  /// A number for the bits of the result.
  [[nodiscard]] std::uint64_t hash() const;

 private:
  DeviceBuffer partial_;
};

/// gemm_rs or gemm_ar of these sizes, bf16.
Problem sum_problem_of(Op op, int ranks, std::int64_t m, std::int64_t n, std::int64_t k);

/// Whether every rank has the same number. Collective.
Finding equal_on_ranks(Member& member, std::uint64_t mine, const std::string& what);

}  // namespace tilelace::gpu_test
