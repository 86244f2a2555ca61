// SPDX-License-Identifier: Apache-2.0
// Plans of the fused gemm_ar: their blocks cover the rows, their partials fit the staging.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cuda_plans.h"
#include "plan/gpu/gpu_plan.h"
#include "plan/gpu/kernel_choice.h"
#include "plan/ways/gemm_ar_way.h"
#include "tilelace/error.h"

namespace tilelace::plan {
namespace {

using schedule::Index;

Problem problem_of(int ranks, std::int64_t m, std::int64_t n, std::int64_t k) {
  return cuda_problem(Op::gemm_ar, ranks, m, n, k);
}

TEST(GemmArWay, BlocksCoverTheRowsAndPartialsFitTheStaging) {
  std::mt19937 rng(11);
  for (int i = 0; i < 60; ++i) {
    const int ranks = 2 + static_cast<int>(rng() % 7);
    const Problem p = problem_of(ranks, 1 + rng() % 40000, 8 * (1 + rng() % 1024), 512);
    const auto plans = gemm_ar_candidates(p);
    ASSERT_FALSE(plans.empty());
    for (const GemmArWay& plan : plans) {
      const GemmTile& tile = plan.gemm.tile;
      const auto order = gemm_ar_order(p, plan, 0);
      ASSERT_LE(order.blocks, schedule::kMaxShareBlocks);
      Index rows = 0;
      for (int s = 0; s < order.count; ++s) rows += order.end(s) - order.begin(s);
      ASSERT_EQ(rows, plan.by_columns ? ranks * p.m : p.m) << describe(plan.gemm);
      const Index cols = Index{order.cols} * tile.worker_cols();
      ASSERT_GE(plan.by_columns ? ranks * cols : cols, p.n.front()) << describe(plan.gemm);
      const Index given = Index{(tile.blocks * tile.width / 2 + 7) / 8} * 128 * 16;
      ASSERT_LE(order.num_partials() * tile.cluster() * given + p.m * p.n.front() * 2,
                gemm_ar_staging_bytes(p))
          << describe(plan.gemm);
    }
  }
}

/// Staging is made for the most rows: calls with fewer, whose owners may have columns, fit too.
TEST(GemmArWay, FewerRowsNeverTakeMoreStaging) {
  for (const int ranks : {2, 3, 4, 8})
    for (const std::int64_t n : {8, 328, 8192}) {
      std::int64_t least = 0;
      for (const std::int64_t m : {1, 64, 200, 512, 1024, 2000, 2048, 2049, 2100, 4096, 9000}) {
        const std::int64_t bytes = gemm_ar_staging_bytes(problem_of(ranks, m, n, 512));
        EXPECT_GE(bytes, least) << ranks << " ranks, n " << n << ", m " << m;
        least = bytes;
      }
    }
}

/// Groups that share a tile multiply nothing while they send: only where nothing is left to
/// multiply. All partials leave together there, half of them a little later.
TEST(GemmArWay, GroupsShareATileInOneWaveOnly) {
  bool shared = false, held = false;
  for (const std::int64_t m : {64, 256, 512, 2048}) {
    const Problem p = problem_of(4, m, 5120, 6400);
    for (const GemmArWay& plan : gemm_ar_candidates(p)) {
      const bool one = gemm_ar_order(p, plan, 0).tiles() <= plan.gemm.workers;
      EXPECT_TRUE(plan.gemm.tile.pingpong || one) << describe(plan.gemm);
      EXPECT_EQ(gemm_ar_hold_us(p, plan) > 0, one && plan.by_columns && plan.gemm.rounds == 1)
          << describe(plan.gemm);
      shared = shared || !plan.gemm.tile.pingpong;
      held = held || gemm_ar_hold_us(p, plan) > 0;
    }
  }
  EXPECT_TRUE(shared && held);
}

/// What is sent of the first round's tiles travels under the second's.
TEST(GemmArWay, TwoRoundsHaveHalfOfTheTilesEachAndOwnOnesLast) {
  int met = 0;
  for (const int ranks : {2, 3, 4, 8})
    for (const std::int64_t m : {128, 200, 256, 512}) {
      const Problem p = problem_of(ranks, m, 5120, 3200 / ranks * 8);
      for (const GemmArWay& plan : gemm_ar_candidates(p)) {
        if (plan.gemm.rounds == 1) continue;
        ++met;
        const auto order = gemm_ar_order(p, plan, 1);
        EXPECT_TRUE(plan.by_columns && plan.gemm.tile.pingpong) << describe(plan.gemm);
        EXPECT_EQ(plan.gemm.split_tiles, order.tiles()) << describe(plan.gemm);
        EXPECT_EQ(plan.gemm.workers, order.tiles()) << describe(plan.gemm);
        EXPECT_LE(plan.gemm.workers * plan.gemm.tile.cluster(), 132) << describe(plan.gemm);
        for (int t = 0; t < order.tiles(); ++t)
          EXPECT_EQ(order.own_tile(t), t >= order.tiles() / ranks * (ranks - 1))
              << describe(plan.gemm);
      }
    }
  EXPECT_GT(met, 20);
}

/// One that came sooner would wait for terms that are made beside it.
TEST(GemmArWay, OwnTilesComeAWaveBehindTheFirstRemoteOnes) {
  for (const int ranks : {2, 3, 4, 8})
    for (const std::int64_t m : {512, 1024, 2048, 4096}) {
      const Problem p = problem_of(ranks, m, 5120, 3200 / ranks * 8);
      for (const GemmArWay& plan : gemm_ar_candidates(p)) {
        const auto order = gemm_ar_order(p, plan, 0);
        int own = 0, remote = 0;
        for (int t = 0; t < order.tiles(); ++t) remote += order.own_tile(t) ? 0 : 1;
        while (own < order.tiles() && !order.own_tile(own)) ++own;
        EXPECT_GE(own, std::min(remote, plan.gemm.workers)) << describe(plan.gemm);
      }
    }
}

TEST(GemmArWay, RefusesAnotherOpAndTooManyRanks) {
  Problem p = problem_of(4, 1024, 1024, 512);
  p.op = Op::gemm_rs;
  EXPECT_THROW(gemm_ar_candidates(p), Error);
  EXPECT_THROW(gemm_ar_candidates(problem_of(16, 1024, 1024, 512)), Error);
  EXPECT_THROW(gemm_ar_candidates(problem_of(4, 0, 1024, 512)), Error);
}

}  // namespace
}  // namespace tilelace::plan
