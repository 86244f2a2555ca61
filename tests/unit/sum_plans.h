// SPDX-License-Identifier: Apache-2.0
// What tests of gemm_rs' and gemm_ar's plans on GPU ranks share.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "plan/cuda.h"
#include "tilelace/error.h"

namespace tilelace::plan {

inline Problem sum_problem(Op op, std::int64_t m, int ranks = 4) {
  Problem p;
  p.op = op;
  p.ranks = ranks;
  p.m = m;
  p.n = {8192};
  p.k = 7168;
  return p;
}

inline std::string error_of(const Problem& p, const PlanOptions& o = {}) {
  try {
    make_plan(p, cuda_machine(), o);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
  return "no error";
}

inline bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline PlanOptions path(Path p) {
  PlanOptions o;
  o.path = p;
  return o;
}

inline PlanOptions wide(PlanOptions o = {}) {
  o.partials = DType::fp32;
  return o;
}

}  // namespace tilelace::plan
