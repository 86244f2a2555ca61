// SPDX-License-Identifier: Apache-2.0
// Plans of ag_gemm on GPUs: what is offered, what is refused.
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda_plans.h"
#include "plan/ways/ag_gemm_way.h"
#include "plan/ways/gather_exchange.h"
#include "tilelace/error.h"

namespace tilelace::plan {
namespace {

Problem problem(std::int64_t m, int ranks = 4) {
  return cuda_problem(Op::ag_gemm, ranks, m, 7168, 8192);
}

TEST(AgGemmWay, LargeProblemsGoByShardOverCopyEngines) {
  const auto plans = ag_gemm_candidates(problem(8192));
  ASSERT_FALSE(plans.empty());
  for (const AgGemmWay& p : plans) {
    EXPECT_NE(p.gemm.tile.name, "t192");
    if (is_exchanged(p)) continue;
    EXPECT_FALSE(p.whole);
    EXPECT_NE(p.transport, Transport::store);
    EXPECT_GE(p.chunk_rows * 8192 * 2, 4 << 20);
  }
}

TEST(AgGemmWay, FewTokensHaveTilesOverAllShards) {
  const auto plans = ag_gemm_candidates(problem(16));
  ASSERT_FALSE(plans.empty());
  EXPECT_TRUE(plans.front().whole);
  EXPECT_EQ(plans.front().transport, Transport::store);
  for (const AgGemmWay& p : plans) {
    EXPECT_TRUE(!p.whole || p.transport == Transport::store);
  }
}

bool is(const AgGemmWay& p, Path path, Transport transport, RouteKind route) {
  return p.path == path && p.transport == transport && p.route == route;
}

TEST(AgGemmWay, EveryTransportOfCopyEnginesIsOffered) {
  for (const std::int64_t m : {1, 64, 1000, 8192}) {
    for (const int ranks : {2, 3, 8}) {
      const auto plans = ag_gemm_candidates(problem(m, ranks));
      const auto any = [&](Path path, Transport transport, RouteKind route) {
        return std::any_of(plans.begin(), plans.end(),
                           [&](const AgGemmWay& p) { return is(p, path, transport, route); });
      };
      EXPECT_TRUE(any(Path::fused, Transport::push, RouteKind::mesh)) << m;
      EXPECT_TRUE(any(Path::fused, Transport::push, RouteKind::ring)) << m;
      EXPECT_TRUE(any(Path::fused, Transport::pull, RouteKind::mesh)) << m;
      EXPECT_TRUE(any(Path::medium, Transport::push, RouteKind::mesh)) << m;
    }
  }
}

TEST(AgGemmWay, WaitsBetweenCopiesFindAFreeMultiprocessor) {
  for (const int multiprocessors : {17, 66, 131, 132}) {
    int relays = 0;
    for (const std::int64_t m : {5, 300, 4096}) {
      for (const AgGemmWay& p : ag_gemm_candidates(problem(m), {multiprocessors})) {
        const auto ctas = p.gemm.workers * p.gemm.tile.cluster();
        EXPECT_LE(ctas, (multiprocessors - (p.relays() ? 1 : 0)) * p.gemm.tile.per_sm) << p.gemm;
        relays += p.relays() ? 1 : 0;
      }
    }
    EXPECT_GT(relays, 0) << multiprocessors;
  }
}

TEST(AgGemmWay, TooSmallDevicesHaveNoCopiesThatWait) {
  for (const AgGemmWay& p : ag_gemm_candidates(problem(300), {16}))
    EXPECT_FALSE(p.relays()) << p.gemm;
}

TEST(AgGemmWay, MediumIsAProductOfTheLargestShard) {
  Problem p = problem(4096);
  p.rows = {3000, 1096, 0, 0};
  for (const AgGemmWay& plan : ag_gemm_candidates(p)) {
    if (plan.path != Path::medium) continue;
    EXPECT_EQ(plan.chunk_rows, 3000);
    EXPECT_FALSE(plan.whole);
    EXPECT_EQ(plan.transport, Transport::push);
    EXPECT_TRUE(!plan.gemm.tile.swapped || is_across(plan.gemm.tile)) << plan.gemm;
  }
}

TEST(AgGemmWay, NoCtaSendsTwoChunks) {
  int sent = 0;
  for (const std::int64_t m : {1, 33, 128, 333, 777, 1024})
    for (const int ranks : {2, 4, 8})
      for (const std::int64_t n : {64, 7168}) {  // of one to two CTAs, and of many
        const Problem gather = cuda_problem(Op::ag_gemm, ranks, m, n, 8192);
        for (const AgGemmWay& p : ag_gemm_candidates(gather)) {
          if (p.path != Path::fused || p.transport != Transport::store) continue;
          ++sent;
          const std::int64_t rows = (m + ranks - 1) / ranks;
          const std::int64_t targets = p.whole ? ranks : ranks - 1;
          const std::int64_t ctas = p.gemm.ctas(tiles_of(p, gather));
          const auto chunks = [&](std::int64_t of) { return (rows + of - 1) / of * targets; };
          ASSERT_TRUE(chunks(p.chunk_rows) <= ctas || p.chunk_rows == rows) << m << ' ' << ranks;
          ASSERT_TRUE(p.chunk_rows == 1 || chunks(p.chunk_rows - 1) > ctas) << m << ' ' << ranks;
        }
      }
  EXPECT_GT(sent, 1000);
}

TEST(AgGemmWay, WhatCannotBePlannedIsRefused) {
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
