// SPDX-License-Identifier: Apache-2.0
// Random cases for CPU ranks. Op, number of ranks, seed and the case's index identify a case.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "problems.h"
#include "tilelace/plan.h"

namespace tilelace::conformance {

/// The rows of one call of a case, at most as many as in Case::problem.
struct CallShape {
  std::int64_t m = 0;
  std::vector<std::int64_t> rows;  ///< rows of each shard; empty: even split
};

struct Case {
  Problem problem;  ///< the problem of the case's largest call
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
  bool activations = false;  ///< true: problems may have activations (in tests of error bounds)
  int calls = 2;             ///< calls per case
  std::int64_t largest = 0;  ///< approximate limit of rows, columns and k; 0: depends on ranks
};

/// CaseRequest::count valid cases. `refused`: number of combinations that make_plan refused.
struct CaseTable {
  std::vector<Case> cases;
  int refused = 0;
};

CaseTable make_cases(const CaseRequest&);

/// The case's problem with the rows of one call.
Problem problem_of(const Case&, const CallShape&);

}  // namespace tilelace::conformance
