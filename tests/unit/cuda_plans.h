// SPDX-License-Identifier: Apache-2.0
// What tests of GPU ranks' plans share.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "plan/gpu/kernel_choice.h"
#include "tilelace/error.h"

namespace tilelace::plan {

inline Problem cuda_problem(Op op, int ranks, std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.op = op, .ranks = ranks, .m = m, .n = {n}, .k = k};
}
inline Problem sum_problem(Op op, std::int64_t m, int ranks = 4) {
  return cuda_problem(op, ranks, m, 8192, 7168);
}

inline std::string error_of(const Problem& p, const PlanOptions& o = {},
                            const Machine& machine = cuda_machine()) {
  try {
    make_plan(p, machine, o);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
  return "no error";
}

inline bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The alternative `Way` of plan.kernel->way, which must hold it.
template <class Way>
const Way& way_of(const Plan& plan) {
  return std::get<Way>(plan.kernel->way);
}
inline std::string_view tile_of(const Plan& plan) { return gemm_of(plan.kernel->way).tile.name; }
inline int grid_of(const Plan& plan) { return plan.kernel->grid; }

inline PlanOptions path(Path p) {
  PlanOptions o;
  o.path = p;
  return o;
}

}  // namespace tilelace::plan
