// SPDX-License-Identifier: Apache-2.0
// Rows of ag_gemm that an exchange brings before the product: what it sends, and the room it takes.
#include "plan/ways/gather_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cuda_plans.h"
#include "plan/base/problem.h"

namespace tilelace::plan {
namespace {

Problem problem(std::int64_t m, int ranks, std::int64_t k = 4096) {
  return cuda_problem(Op::ag_gemm, ranks, m, 1024, k);
}

void expect_room(const Problem& p, const Problem& prepared, const CollectiveMachine& machine) {
  for (const bool lines : {true, false}) {
    if (lines && !may_be_lines(p, machine)) continue;
    for (int rank = 0; rank < p.ranks; ++rank) {
      const CollectiveCall call = gathered_rows(p, rank);
      const CollectivePlan plan = gathering_plan(lines, call, machine);
      ASSERT_EQ(plan.lines, lines);
      ASSERT_EQ(plan.direct, !lines);
      ASSERT_EQ(plan.pieces, 1) << p;
      const auto s = place_exchange<schedule::kMaxGpuRanks>(call, plan, 0).schedule;
      const Index lines_bytes = lines ? s.num_units() * kBytesOfLines : 0;
      ASSERT_LE(word_bytes(p.ranks) + lines_bytes, gathering_line_bytes(prepared)) << p;
      ASSERT_LE(schedule::RingExchange(s).num_terms() * 8, word_bytes(p.ranks)) << p;
    }
  }
}

TEST(GatherExchange, FitsWhatIsPreparedForMoreRows) {
  std::mt19937 random(38);
  for (int i = 0; i < 60; ++i) {
    const int ranks = 1 + static_cast<int>(random() % 8);
    const auto k = static_cast<Index>(8 * (1 + random() % 2000));
    const Index most = 1 + random() % (random() % 2 == 0 ? 100 : 20000);
    const Problem prepared = problem(most, ranks, k);
    for (const Index m : {Index{1}, 1 + static_cast<Index>(random()) % most, most})
      for (const int multiprocessors : {8, 66, 132})
        for (const bool shared : {false, true})
          expect_room(problem(m, ranks, k), prepared,
                      {.workers = multiprocessors, .shared = shared});
    Problem uneven = prepared;  // all rows are one rank's
    uneven.rows.assign(static_cast<std::size_t>(ranks), 0);
    uneven.rows.back() = most;
    expect_room(uneven, prepared, {.workers = 132});
  }
}

TEST(GatherExchange, BringsWhatEachRankHas) {
  Problem p = problem(12, 3);
  p.rows = {5, 0, 7};
  const Index row = 4096 * 2;
  const CollectiveCall call = gathered_rows(p, 2);
  EXPECT_EQ(call.collective, Collective::all_gather);
  EXPECT_EQ(call.sends, std::vector<Parcel>(3, {0, 7 * row}));
  EXPECT_EQ(call.takes, (std::vector<Parcel>{{0, 5 * row}, {5 * row, 0}, {5 * row, 7 * row}}));
  EXPECT_EQ(call.counts, (std::vector<Index>{5 * 4096, 0, 7 * 4096}));
}

TEST(GatherExchange, IsByLinesWhereTheseHaveRoom) {
  const auto count = [](const Problem& p, bool lines) {
    const auto all = ag_gemm_candidates(p);
    return std::count_if(all.begin(), all.end(), [&](const AgGemmWay& way) {
      EXPECT_TRUE(!way.lines || is_exchanged(way));
      EXPECT_TRUE(way.whole || !is_exchanged(way));
      return is_exchanged(way) && way.lines == lines;
    });
  };
  for (const int ranks : {2, 4, 8}) {
    EXPECT_GT(count(problem(16, ranks), true), 0);
    EXPECT_GT(count(problem(16, ranks), false), 0);
    EXPECT_EQ(count(problem(8192, ranks), true), 0);
    EXPECT_GT(count(problem(8192, ranks), false), 0);
  }
}

}  // namespace
}  // namespace tilelace::plan
