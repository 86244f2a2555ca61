// SPDX-License-Identifier: Apache-2.0
// What a well-formed Problem is.
#pragma once
#include "tilelace/plan.h"

namespace tilelace::plan {

constexpr int kMaxRanks = 64;
/// Larger extents would overflow 64-bit byte counts somewhere down the line.
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 40;

/// Throws a usage error that names the first thing wrong with the problem.
void check_problem(const Problem&);

/// Of a row of what is multiplied, or only gathered.
inline std::int64_t input_row_bytes(const Problem& p) {
  return p.k * static_cast<std::int64_t>(size_of(p.dtype));
}

/// Of a row of a sum's result.
inline std::int64_t row_bytes(const Problem& p) {
  return p.n.front() * static_cast<std::int64_t>(size_of(p.dtype));
}

/// Errors: usage, where an option is none of its kind.
void check_options(Op, const PlanOptions&);

}  // namespace tilelace::plan
