// SPDX-License-Identifier: Apache-2.0
// Plans of the fused gemm_rs: their partials fit the staging; where shards come in pairs.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "cuda_plans.h"
#include "plan/base/schedules.h"
#include "plan/gpu/kernel_choice.h"
#include "plan/ways/gemm_rs_way.h"
#include "schedule/make_reduce_order.h"
#include "tilelace/error.h"

namespace tilelace::plan {
namespace {

using schedule::Index;

Problem problem_of(int ranks, std::int64_t m, std::int64_t n, std::int64_t k) {
  return cuda_problem(Op::gemm_rs, ranks, m, n, k);
}

bool any_pairs(const Problem& p) {
  const auto plans = gemm_rs_candidates(p);
  return std::any_of(plans.begin(), plans.end(), [](const GemmRsWay& plan) { return plan.pairs; });
}

Index partials_of(const Problem& p, const GemmRsWay& plan) {
  const auto borders = borders_of(p);
  Plan all;
  all.op = p.op;
  all.transport = Transport::store;
  all.tile_m = plan.gemm.tile.worker_tokens();
  all.tile_n = plan.gemm.tile.worker_columns();
  const auto s = reduce_schedule(p, all, 0, borders);
  const auto walk = work_of(plan.gemm, {p.m, p.n.front(), p.k, p.dtype}).order;
  if (plan.pairs) return make_pair_order(s, walk, plan.gemm.tile.rows()).num_partials();
  return make_reduce_order(s, over_tokens(walk, plan.gemm.tile), plan.gemm.tile.worker_tokens(),
                           plan.apart == 1)
      .num_partials();
}

TEST(GemmRsWay, PartialsFitTheStaging) {
  std::mt19937 rng(12);
  int paired = 0;
  for (int i = 0; i < 200; ++i) {
    const int ranks = 2 + static_cast<int>(rng() % 7);
    const Problem p = problem_of(ranks, 1 + rng() % 3000, 8 * (1 + rng() % 1024), 512);
    for (const GemmRsWay& plan : gemm_rs_candidates(p)) {
      const GemmTile& tile = plan.gemm.tile;
      const Index given = Index{(tile.blocks * tile.width / 2 + 7) / 8} * 128 * 16 *
                          (tile.pingpong ? 1 : tile.groups);
      ASSERT_LE(partials_of(p, plan) * tile.cluster() * given, gemm_rs_staging_bytes(p))
          << describe(plan.gemm);
      paired += plan.pairs ? 1 : 0;
    }
  }
  EXPECT_GT(paired, 0);
}

/// A cluster within a shard would have a half without rows; own tiles are nobody's but the last.
TEST(GemmRsWay, ShardsOfOddTilesComeInPairs) {
  for (const int ranks : {2, 4, 8}) {
    EXPECT_TRUE(any_pairs(problem_of(ranks, ranks * 128, 5120, 3200))) << ranks;
    EXPECT_FALSE(any_pairs(problem_of(ranks, ranks * 256, 5120, 3200))) << ranks;
  }
  EXPECT_TRUE(any_pairs(problem_of(2, 700, 2560, 3200)));
  EXPECT_FALSE(any_pairs(problem_of(2, 700, 8192, 3200))) << "more than a wave of own tiles";
  EXPECT_FALSE(any_pairs(problem_of(3, 3 * 128, 5120, 3200))) << "an odd number of ranks";
}

TEST(GemmRsWay, StraddlesWhereItIsAskedTo) {
  for (const auto& [ranks, m] : {std::pair{2, 100}, std::pair{2, 256}, std::pair{4, 512}}) {
    const Problem p = problem_of(ranks, m, 5120, 25600 / ranks);
    PlanOptions o;
    o.straddle = false;
    EXPECT_FALSE(make_plan(p, cuda_machine(), o).straddle) << m;
    o.straddle = true;
    const Plan plan = make_plan(p, cuda_machine(), o);
    EXPECT_EQ(plan.path, Path::fused) << plan.reason;
    EXPECT_TRUE(plan.straddle) << plan.reason;
    const GemmRsWay best = std::get<GemmRsWay>(plan.kernel->way);
    EXPECT_TRUE(best.pairs);
    const int across = (5120 + best.gemm.tile.width - 1) / best.gemm.tile.width;
    EXPECT_EQ(plan.kernel->grid, 2 * std::min(best.gemm.workers, ranks / 2 * across))
        << describe(best.gemm);
  }
}

/// llama70b's down, two ranks. Shards of 150 tokens fill one of 152 across; of 128 down they take
/// two, of which the second is mostly empty.
TEST(GemmRsWay, TakesTokensAcrossWhereShardsFillTiles) {
  const auto across = [](std::int64_t m) {
    return is_across(gemm_rs_candidates(problem_of(2, m, 8192, 14336)).front().gemm.tile);
  };
  EXPECT_TRUE(across(300));
  EXPECT_TRUE(across(1300));
  EXPECT_FALSE(across(512));
  EXPECT_FALSE(across(2048));
  Machine alone = cuda_machine();
  alone.cublas = false;  // with it an unfused sum may be as fast
  EXPECT_EQ(make_plan(problem_of(2, 300, 8192, 14336), alone).path, Path::fused);
}

TEST(GemmRsWay, StraddlingThatNoPlanHasIsAnErrorThatSaysWhatHasIt) {
  PlanOptions o;
  o.straddle = true;
  EXPECT_TRUE(says(error_of(problem_of(3, 384, 5120, 8192), o), "an even number of ranks"));
  EXPECT_TRUE(says(error_of(problem_of(2, 512, 5120, 8192), o), "straddle 1"));
  o.path = Path::medium;
  o.transport = Transport::push;
  EXPECT_TRUE(says(error_of(problem_of(2, 256, 5120, 8192), o), "only fused plans straddle"));
  o = {};
  o.straddle = true;
  o.path = Path::unfused;
  EXPECT_TRUE(says(error_of(problem_of(2, 256, 5120, 8192), o), "path unfused"));
}

}  // namespace
}  // namespace tilelace::plan
