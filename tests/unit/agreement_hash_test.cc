// SPDX-License-Identifier: Apache-2.0
// What ranks compare before a call writes anything.
#include <gtest/gtest.h>

#include "plan/schedules.h"

namespace tilelace::plan {
namespace {

TEST(AgreementHash, SaysWhereListsEnd) {
  // Without the lists' lengths the numbers of both are m 1, then 12 8 1 1 1 0 1 0.
  Problem three{.op = Op::ag_gemm, .ranks = 2, .m = 1, .n = {12, 8, 1}, .k = 1};
  three.dtype = DType::fp16;
  three.activation = Activation::gelu;
  Problem one{.op = Op::ag_gemm, .ranks = 2, .m = 1, .n = {12}, .k = 8};
  one.dtype = DType::fp16;
  one.bias = true;
  one.activation = Activation::gelu;
  one.rows = {1, 0};
  EXPECT_NE(agreement_hash(three, {}), agreement_hash(one, {}));
}

}  // namespace
}  // namespace tilelace::plan
