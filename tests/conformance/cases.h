// SPDX-License-Identifier: Apache-2.0
// Random cases for CPU ranks. Op, number of ranks, seed and the case's index identify a case.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "problems.h"
#include "tilelace/plan.h"

namespace tilelace::conformance {

/// The rows of one call of a case, at most those of Case::problem.
struct CallShape {
  std::int64_t m = 0;
  std::vector<std::int64_t> rows;  ///< rows of each shard; empty: even split
};

struct Case {
  Problem problem;  ///< m and rows of the largest call
  PlanOptions options;
  int workers = 1;
  std::vector<CallShape> calls;
  std::int64_t pad = 0;     ///< padding of each row, in units of 16 bytes
  std::int64_t offset = 0;  ///< offset of data in a cache line, in units of 16 bytes
  std::uint64_t seed = 0;   ///< seed of the data
  std::string name;         ///< op, number of ranks, seed and index

  [[nodiscard]] std::string describe() const;
};

struct CaseRequest {
  Op op = Op::ag_gemm;
  int ranks = 1;
  int count = 0;
  std::uint64_t seed = 1;
  bool activations = false;  ///< for tests of bounds: problems may have activations
  int calls = 2;             ///< calls per case
  std::int64_t largest = 0;  ///< about the most rows, columns and k; 0: depends on ranks
};

/// `count` valid cases. Combinations that make_plan refuses are counted and left out.
struct CaseTable {
  std::vector<Case> cases;
  int refused = 0;
};

CaseTable make_cases(const CaseRequest&);

/// The case's problem with the rows of one call.
Problem problem_of(const Case&, const CallShape&);

}  // namespace tilelace::conformance
