// SPDX-License-Identifier: Apache-2.0
// The sum after the product, pushed: how it is cut. That it ends, and moves everything once, is
// checked with all schedules (tests/protocol).
#include "schedule/push_rows.h"

#include <gtest/gtest.h>

#include "cuda_plans.h"
#include "plan/ways/unfused_sum_way.h"

namespace tilelace::plan {
namespace {

using schedule::Index;
using schedule::PushRows;

Problem problem(Op op, std::int64_t m, int ranks) { return cuda_problem(op, ranks, m, 8192, 1024); }

TEST(PushRows, KeepsWithinItsRoundsFlagsAndBarriers) {
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const std::int64_t m : {1, 3, 16, 64, 250, 256, 512, 1000})
      for (const Op op : {Op::gemm_rs, Op::gemm_ar})
        for (const UnfusedSumWay& c : gemm_reduce_candidates(problem(op, m, ranks))) {
          if (c.transport != Transport::push) continue;
          for (const int ctas : {7, 66, 132}) {
            const PushRows s = push_rows_schedule(problem(op, m, ranks), c.shots, 0, ctas);
            EXPECT_EQ(s.rounds(), 1);
            EXPECT_LE(s.num_flags(), 2 * ranks * schedule::kMaxSumChunks);
            EXPECT_LE(s.workers, ctas);
          }
        }
}

TEST(PushRows, TakesAllMultiprocessorsWhereRowsAreEnough) {
  const PushRows s = push_rows_schedule(problem(Op::gemm_ar, 256, 4), 2, 1, 132);
  EXPECT_GE(s.workers, 128);
  EXPECT_EQ(s.chunk_units % 8, 0);
  // 4 rows of 1024 units.
  const PushRows few = push_rows_schedule(problem(Op::gemm_rs, 16, 4), 1, 1, 132);
  EXPECT_EQ(few.workers, 32);
  EXPECT_EQ(few.chunk_units, 128);
}

TEST(PushRows, IsForFewRowsThatFitTheStaging) {
  const auto pushed = [](const Problem& p) {
    int count = 0;
    for (const UnfusedSumWay& c : gemm_reduce_candidates(p))
      if (c.transport == Transport::push) {
        ++count;
        EXPECT_LE(p.m * 8192 * 2 + (p.ranks - 1) * pushed_pitch(p, c.shots),
                  gemm_reduce_staging_bytes(p));
      }
    return count;
  };
  for (const Op op : {Op::gemm_rs, Op::gemm_ar}) {
    const std::int64_t most = op == Op::gemm_rs ? 1024 : 576;  // of 16 KiB
    for (const std::int64_t m : {std::int64_t{1}, std::int64_t{64}, std::int64_t{65}, most})
      EXPECT_GT(pushed(problem(op, m, 4)), 0) << m;
    EXPECT_EQ(pushed(problem(op, most + 1, 4)), 0);
  }
  // A large shard would need more room than even ones have.
  Problem p = problem(Op::gemm_rs, 256, 4);
  p.rows = {61, 65, 65, 65};
  EXPECT_EQ(pushed(p), 0);
  p.rows = {64, 64, 64, 64};
  EXPECT_GT(pushed(p), 0);
  // A longer call needs no less.
  Problem more = problem(Op::gemm_ar, 4096, 4);
  for (const std::int64_t m : {64, 1024, 2048})
    EXPECT_GE(gemm_reduce_staging_bytes(more), gemm_reduce_staging_bytes(problem(more.op, m, 4)));
}

}  // namespace
}  // namespace tilelace::plan
