// SPDX-License-Identifier: Apache-2.0
// The sum after the product, pushed: how it is cut. That it ends, and moves everything once, is
// checked with all schedules (tests/protocol).
#include "schedule/push_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "plan/gemm_reduce.h"

namespace tilelace::plan {
namespace {

using schedule::Index;
using schedule::PushRows;

Problem problem(Op op, std::int64_t m, int ranks) {
  Problem p;
  p.op = op;
  p.ranks = ranks;
  p.m = m;
  p.n = {8192};
  p.k = 1024;
  return p;
}

struct Ends {
  std::vector<Index> flags;

  void push(schedule::PushedChunk /*c*/) {}
  void signal(int /*peer*/, Index /*flag*/) {}
  void admit() {}
  void wait(Index /*flag*/) {}
  void reduce(const schedule::SumChunk& /*c*/) {}
  void deliver(const schedule::SumChunk& /*c*/) {}
  void settle(Index flag) { flags.push_back(flag); }
};

TEST(PushRows, KeepsWithinItsRoundsFlagsAndBarriers) {
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const std::int64_t m : {1, 3, 16, 64, 250, 256, 512, 1000})
      for (const Op op : {Op::gemm_rs, Op::gemm_ar})
        for (const GemmReducePlan& c : gemm_reduce_candidates(problem(op, m, ranks))) {
          if (c.transport != Transport::push) continue;
          for (const int ctas : {7, 66, 132}) {
            const PushRows s = push_rows_schedule(problem(op, m, ranks), c.push, 0, ctas);
            EXPECT_LE(s.rounds(), std::min<Index>(c.push.rounds, schedule::kMaxPushRounds));
            EXPECT_LE(s.num_flags(), 2 * ranks * schedule::kMaxSumChunks);
            EXPECT_LE(s.workers, ctas);
            EXPECT_LE(s.closers(), s.workers);
          }
        }
}

TEST(PushRows, TakesAllMultiprocessorsWhereRowsAreEnough) {
  const Problem p = problem(Op::gemm_ar, 256, 4);
  for (const int rounds : {1, 2, 4}) {
    const PushRows s = push_rows_schedule(p, {2, rounds, 256, true}, 1, 132);
    EXPECT_GE(s.workers, 128);
    EXPECT_EQ(s.rounds(), rounds);
    EXPECT_EQ(s.chunk_units % 8, 0);
  }
  // 4 rows of 1024 units.
  const PushRows few = push_rows_schedule(problem(Op::gemm_rs, 16, 4), {}, 1, 132);
  EXPECT_EQ(few.workers, 32);
  EXPECT_EQ(few.chunk_units, 128);
}

TEST(PushRows, ADirectCallEndsWithAllPeersSumsSideBySide) {
  for (const int ranks : {2, 3, 4, 8})
    for (const std::int64_t m : {1, 7, 256, 1000})
      for (int rank = 0; rank < ranks; ++rank) {
        const PushRows s =
            push_rows_schedule(problem(Op::gemm_ar, m, ranks), {2, 4, 256, true}, rank, 132);
        std::set<Index> all, wanted;
        for (int w = 0; w < s.workers; ++w) {
          Ends ends;
          run_push_rows(s, w, ends);
          EXPECT_LE(std::ssize(ends.flags), schedule::kEndFlags);
          for (const Index flag : ends.flags) EXPECT_TRUE(all.insert(flag).second);
        }
        for (int q = 0; q < ranks; ++q)
          for (Index c = 0; q != rank && c < s.chunks[q]; ++c) wanted.insert(s.sum(q, c));
        EXPECT_EQ(all, wanted) << ranks << " " << m << " " << rank;
      }
}

TEST(PushRows, IsForFewRowsThatFitTheStaging) {
  const auto pushed = [](const Problem& p) {
    int count = 0;
    for (const GemmReducePlan& c : gemm_reduce_candidates(p))
      if (c.transport == Transport::push) {
        ++count;
        EXPECT_LE(p.m * 8192 * 2 + (p.ranks - 1) * pushed_pitch(p, c.push),
                  gemm_reduce_staging_bytes(p, p.dtype));
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
    EXPECT_GE(gemm_reduce_staging_bytes(more, more.dtype),
              gemm_reduce_staging_bytes(problem(more.op, m, 4), more.dtype));
}

}  // namespace
}  // namespace tilelace::plan
