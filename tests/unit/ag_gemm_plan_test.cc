// SPDX-License-Identifier: Apache-2.0
// Plans of ag_gemm on GPUs: what is offered, what is refused.
#include <gtest/gtest.h>

#include "plan/ag_gemm.h"
#include "tilelace/error.h"

namespace tilelace::plan {
namespace {

Problem problem(std::int64_t m, int ranks = 4) {
  Problem p;
  p.ranks = ranks;
  p.m = m;
  p.n = {7168};
  p.k = 8192;
  return p;
}

TEST(AgGemmPlan, LargeProblemsGoByShardOverCopyEngines) {
  const auto plans = ag_gemm_candidates(problem(8192));
  ASSERT_FALSE(plans.empty());
  for (const AgGemmPlan& p : plans) {
    EXPECT_FALSE(p.whole);
    EXPECT_EQ(p.transport, Transport::push);
    EXPECT_GE(p.chunk_rows * 8192 * 2, 4 << 20);
    EXPECT_NE(p.gemm.tile.name, "t192");
  }
  EXPECT_NE(describe(plans.front()).find("by shard, copy engine, chunks of"), std::string::npos);
}

TEST(AgGemmPlan, FewTokensHaveTilesOverAllShards) {
  const auto plans = ag_gemm_candidates(problem(16));
  ASSERT_FALSE(plans.empty());
  EXPECT_TRUE(plans.front().whole);
  EXPECT_EQ(plans.front().transport, Transport::store);
  for (const AgGemmPlan& p : plans) {
    EXPECT_TRUE(!p.whole || p.transport == Transport::store);
  }
}

TEST(AgGemmPlan, WhatCannotBePlannedIsRefused) {
  Problem p = problem(0);
  EXPECT_THROW(static_cast<void>(ag_gemm_candidates(p)), Error);
  p = problem(64, 9);
  EXPECT_THROW(static_cast<void>(ag_gemm_candidates(p)), Error);
  p = problem(64);
  p.k = 100;
  EXPECT_THROW(static_cast<void>(ag_gemm_candidates(p)), Error);
  p = problem(64);
  p.op = Op::gemm_rs;
  EXPECT_THROW(static_cast<void>(ag_gemm_candidates(p)), Error);
}

}  // namespace
}  // namespace tilelace::plan
