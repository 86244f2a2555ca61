// SPDX-License-Identifier: Apache-2.0
// The problem of the rows that tests of tuning tables use.
#pragma once
#include <cstdint>

#include "tilelace/plan.h"

namespace tilelace::plan {

/// The down projection of llama2-70b on two ranks.
inline Problem down(std::int64_t m) {
  Problem p;
  p.op = Op::gemm_rs;
  p.ranks = 2;
  p.m = m;
  p.n = {8192};
  p.k = 14336;
  p.dtype = DType::bf16;
  return p;
}

}  // namespace tilelace::plan
