// SPDX-License-Identifier: Apache-2.0
// Checks whether a Problem is valid.
#pragma once
#include "tilelace/plan.h"

namespace tilelace::plan {

constexpr int kMaxRanks = 64;
/// Larger extents could overflow 64-bit byte counts.
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 40;

/// Throws a usage error that names the first fault of the problem.
void check_problem(const Problem&);

/// GPU ranks load and store 16 bytes at once: widths are multiples of so many elements, and gate
/// and up in one weight of twice as many.
inline std::int64_t grain_of(DType t, bool gated = false) {
  return (gated ? 32 : 16) / static_cast<std::int64_t>(size_of(t));
}

/// Bytes of a row of the input, whether it is multiplied or only gathered.
inline std::int64_t input_row_bytes(const Problem& p) {
  return p.k * static_cast<std::int64_t>(size_of(p.dtype));
}

/// Bytes of a row of the result of gemm_rs and gemm_ar.
inline std::int64_t row_bytes(const Problem& p) {
  return p.n.front() * static_cast<std::int64_t>(size_of(p.dtype));
}

/// Throws a usage error if an option has an unknown value.
void check_options(Op, const PlanOptions&);

}  // namespace tilelace::plan
