// SPDX-License-Identifier: Apache-2.0
// Cases of CPU ranks. Seeded, so that a case is named by its test, seed and number.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "problems.h"
#include "tilelace/plan.h"

namespace tilelace::conformance {

/// One call of a case: its rows, at most the problem's.
struct CallShape {
  std::int64_t m = 0;
  std::vector<std::int64_t> rows;  ///< empty: even split
};

struct Case {
  Problem problem;  ///< m and rows: the largest
  PlanOptions options;
  int workers = 1;
  std::vector<CallShape> calls;
  std::int64_t pad = 0;     ///< 16-byte units by which strides exceed the row
  std::int64_t offset = 0;  ///< 16-byte units by which data is off a cache line
  std::uint64_t seed = 0;   ///< of the data
  std::string name;         ///< test, number

  [[nodiscard]] std::string describe() const;
};

struct CaseRequest {
  Op op = Op::ag_gemm;
  int ranks = 1;
  int count = 0;
  std::uint64_t seed = 1;
  bool activations = false;  ///< activations too, and no bias but small ones (bounds tests)
  int calls = 2;             ///< calls a case
  std::int64_t largest = 0;  ///< rows, columns and depth at most about this; 0: by ranks
};

/// `count` legal cases. Combinations that make_plan refuses are left out, and counted.
struct CaseTable {
  std::vector<Case> cases;
  int refused = 0;
};

CaseTable make_cases(const CaseRequest&);

/// The case's problem with the rows of one call.
Problem problem_of(const Case&, const CallShape&);

}  // namespace tilelace::conformance
