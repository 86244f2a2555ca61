// SPDX-License-Identifier: Apache-2.0
// A problem that tests of tables have rows of.
#pragma once
#include <cstdint>

#include "tilelace/plan.h"

namespace tilelace::plan {

/// llama2-70b's down between two ranks.
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
