// SPDX-License-Identifier: Apache-2.0
// Plans for a share of a device: what they launch finds its places whatever stands beside it.
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda_plans.h"
#include "plan/gemm/share.h"
#include "plan/ways/ag_gemm_way.h"
#include "plan/ways/copied_partials_way.h"
#include "plan/ways/gemm_ar_way.h"
#include "plan/ways/gemm_rs_way.h"
#include "plan/ways/kept_partials_way.h"
#include "plan/ways/unfused_sum_way.h"
#include "tilelace/error.h"

namespace tilelace::plan {
namespace {

constexpr int kShares[] = {2, 7, 16, 33, 66, 130};

void expect_place(const GemmPlan& asked, int share, int left = 0) {
  const GemmPlan plan = beside_others(asked, share - 2 * left);
  const int cluster = plan.tile.cluster();
  EXPECT_LE(cluster, kShareCluster) << describe(asked);
  EXPECT_GT(plan.workers, 0) << describe(asked);
  EXPECT_FALSE(plan.early_weights);
  EXPECT_LE(taken_places(plan.workers * cluster, cluster) + 2 * left, share_places(share))
      << describe(asked) << " of " << share;
}

TEST(SharePlan, CtasStandInPairsOrAreFewEnoughForATpcEach) {
  for (int places = 2; places <= 132; places += 2)
    for (int ctas = 1; ctas <= 140; ++ctas) {
      const int standing = standing_ctas(ctas, places);
      EXPECT_LE(taken_places(standing, 1), places) << ctas << " of " << places;
      EXPECT_GE(standing, std::max(1, std::min(ctas, places) - 1)) << ctas << " of " << places;
    }
}

TEST(SharePlan, AllPlansOfTheOpsFindTheirPlaces) {
  for (const int share : kShares)
    for (const std::int64_t m : {1, 24, 200, 1000, 4096}) {
      const GemmMachine machine{share, true};
      const Problem gather = cuda_problem(Op::ag_gemm, 2, m, 1024, 2048),
                    scatter = cuda_problem(Op::gemm_rs, 2, m, 1024, 2048),
                    reduce = cuda_problem(Op::gemm_ar, 2, m, 1024, 2048);
      for (const AgGemmWay& c : ag_gemm_candidates(gather, machine))
        expect_place(c.gemm, share, c.left_free());
      if (share > 16)
        for (const AgGemmWay& c : ag_gemm_nccl_candidates(gather, machine))
          expect_place(c.gemm, share, c.left_free());
      for (const GemmRsWay& c : gemm_rs_candidates(scatter, machine)) expect_place(c.gemm, share);
      for (const GemmArWay& c : gemm_ar_candidates(reduce, machine)) expect_place(c.gemm, share);
      for (const UnfusedSumWay& c : gemm_reduce_candidates(reduce, machine))
        expect_place(c.gemm, share);
      for (const KeptPartialsWay& c : gemm_sums_candidates(reduce, machine))
        expect_place(c.gemm, share);
      for (const CopiedPartialsWay& c : copied_partials_candidates(scatter, machine))
        expect_place(c.gemm, share);
    }
}

TEST(SharePlan, WholeDevicesMayHaveLargerClusters) {
  const auto has_large = [](const GemmMachine& machine) {
    const auto plans = gemm_candidates({64, 8192, 4096, DType::bf16}, machine);
    return std::any_of(plans.begin(), plans.end(),
                       [](const GemmPlan& g) { return g.tile.cluster() > kShareCluster; });
  };
  EXPECT_TRUE(has_large({132, false}));
  EXPECT_FALSE(has_large({132, true}));
}

TEST(SharePlan, FewMultiprocessorsAreEnoughOrAnError) {
  const GemmProblem problem{64, 8192, 4096, DType::bf16};
  for (int count = 2; count < 20; ++count) {
    EXPECT_FALSE(gemm_candidates(problem, {count, false}).empty()) << count;
    EXPECT_FALSE(gemm_candidates(problem, {count, true}).empty()) << count;
  }
  try {
    gemm_candidates(problem, {1, true});
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "gemm: multiprocessors: got 1, expected at least 2");
  }
}

}  // namespace
}  // namespace tilelace::plan
