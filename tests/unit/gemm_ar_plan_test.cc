// SPDX-License-Identifier: Apache-2.0
// Plans of the fused gemm_ar: their super-blocks cover the rows, their partials fit the staging.
#include <gtest/gtest.h>

#include <random>

#include "plan/gemm_ar.h"
#include "schedule/reduce_order.h"
#include "tilelace/error.h"

namespace tilelace::plan {
namespace {

using schedule::ceil_div;
using schedule::Index;

Problem problem_of(int ranks, std::int64_t m, std::int64_t n, std::int64_t k) {
  Problem p;
  p.op = Op::gemm_ar;
  p.ranks = ranks;
  p.m = m;
  p.n = {n};
  p.k = k;
  return p;
}

TEST(GemmArPlan, SuperBlocksCoverTheRowsAndPartialsFitTheStaging) {
  std::mt19937 rng(11);
  for (int i = 0; i < 60; ++i) {
    const int ranks = 2 + static_cast<int>(rng() % 7);
    const Problem p = problem_of(ranks, 1 + rng() % 20000, 8 * (1 + rng() % 1024), 512);
    const auto plans = gemm_ar_candidates(p);
    ASSERT_FALSE(plans.empty());
    for (const GemmArPlan& plan : plans) {
      const GemmTile& tile = plan.gemm.tile;
      const auto s = gemm_ar_schedule(p, plan, 0);
      Index next = 0;
      for (int b = 0; b < s.blocks; ++b)
        for (int q = 0; q < ranks; ++q) {
          ASSERT_EQ(s.shard(b, q).begin, next);
          next = s.shard(b, q).end;
        }
      ASSERT_EQ(next, p.m) << describe(plan);
      const schedule::GemmOrder walk{1, static_cast<int>(ceil_div(p.n.front(), tile.worker_cols())),
                                     8, false};
      const auto order = schedule::make_reduce_order(s, walk, tile.worker_rows(), true);
      const Index given = Index{(tile.blocks * tile.width / 2 + 7) / 8} * 128 * 16;
      ASSERT_LE(order.num_partials() * tile.cluster() * given + p.m * p.n.front() * 2,
                gemm_ar_staging_bytes(p))
          << describe(plan);
    }
  }
}

TEST(GemmArPlan, RefusesAnotherOpAndTooManyRanks) {
  Problem p = problem_of(4, 1024, 1024, 512);
  p.op = Op::gemm_rs;
  EXPECT_THROW(gemm_ar_candidates(p), Error);
  EXPECT_THROW(gemm_ar_candidates(problem_of(16, 1024, 1024, 512)), Error);
  EXPECT_THROW(gemm_ar_candidates(problem_of(4, 0, 1024, 512)), Error);
}

}  // namespace
}  // namespace tilelace::plan
