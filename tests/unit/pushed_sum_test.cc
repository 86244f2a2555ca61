// SPDX-License-Identifier: Apache-2.0
// Sums after the product that are pushed: as collectives, in the room that a slot has.
#include <gtest/gtest.h>

#include <random>

#include "cuda_plans.h"
#include "plan/ways/unfused_sum_way.h"

namespace tilelace::plan {
namespace {

using schedule::Index;

Problem problem(Op op, std::int64_t m, int ranks, std::int64_t n = 8192) {
  return cuda_problem(op, ranks, m, n, 1024);
}

std::vector<UnfusedSumWay> pushed(const Problem& p, int multiprocessors = 132) {
  std::vector<UnfusedSumWay> all;
  for (const UnfusedSumWay& way : gemm_reduce_candidates(p, {multiprocessors}))
    if (way.transport == Transport::push) all.push_back(way);
  return all;
}

/// Of a plan's kernel on these SMs, all of a device or a share.
void expect_room(const UnfusedSumWay& way, const CollectiveMachine& machine, const Problem& p,
                 const Problem& prepared) {
  for (int rank = 0; rank < p.ranks; ++rank) {
    const CollectiveCall call = pushed_sum(p, rank);
    const CollectivePlan plan = pushed_plan(way, call, machine);
    const auto s = place_exchange<schedule::kMaxGpuRanks>(call, plan, 0).schedule;
    ASSERT_EQ(plan.pieces, 1) << p;
    ASSERT_EQ(plan.lines, way.lines);
    if (way.lines)
      ASSERT_LE(word_bytes(p.ranks) + s.num_units() * kBytesOfLines,
                gemm_reduce_line_bytes(prepared))
          << p << " of " << prepared;
    else
      ASSERT_LE(partial_bytes(p) + s.num_units() * schedule::kUnitBytes,
                gemm_reduce_staging_bytes(prepared))
          << p << " of " << prepared;
  }
}

void expect_room(const Problem& p, const Problem& prepared) {
  for (const int multiprocessors : {8, 66, 132}) {
    std::vector<std::pair<int, bool>> seen;
    for (const UnfusedSumWay& way : pushed(p, multiprocessors)) {
      const std::pair kind(way.shots, way.lines);
      if (std::find(seen.begin(), seen.end(), kind) != seen.end()) continue;
      seen.push_back(kind);
      for (const bool shared : {false, true})
        expect_room(way, {.workers = multiprocessors, .shared = shared}, p, prepared);
    }
  }
}

TEST(PushedSum, FitsWhatIsPreparedForMoreRows) {
  std::mt19937 random(37);
  for (int i = 0; i < 60; ++i) {
    const Op op = random() % 2 == 0 ? Op::gemm_ar : Op::gemm_rs;
    const int ranks = 1 + static_cast<int>(random() % 8);
    const auto n = static_cast<Index>(8 * (1 + random() % 2000));
    const Index most = 1 + random() % (random() % 2 == 0 ? 100 : 5000);
    const Problem prepared = problem(op, most, ranks, n);
    for (const Index m : {Index{1}, 1 + static_cast<Index>(random()) % most, most})
      expect_room(problem(op, m, ranks, n), prepared);
  }
}

TEST(PushedSum, OfFewRowsIsLinesInOneShot) {
  for (const int ranks : {2, 4, 8}) {
    const UnfusedSumWay best = pushed(problem(Op::gemm_ar, 1, ranks)).front();
    EXPECT_TRUE(best.lines);
    EXPECT_EQ(best.shots, 1);
  }
  const UnfusedSumWay many = pushed(problem(Op::gemm_ar, 512, 4)).front();
  EXPECT_FALSE(many.lines);
  EXPECT_EQ(many.shots, 2);
}

TEST(PushedSum, HasWhatEachRankSums) {
  Problem p = problem(Op::gemm_rs, 12, 3);
  p.rows = {5, 0, 7};
  const Index row = 8192 * 2;
  const CollectiveCall call = pushed_sum(p, 2);
  EXPECT_EQ(call.collective, Collective::reduce_scatter);
  EXPECT_EQ(call.sends, (std::vector<Parcel>{{0, 5 * row}, {5 * row, 0}, {5 * row, 7 * row}}));
  EXPECT_EQ(call.takes, std::vector<Parcel>(3, {0, 7 * row}));
  EXPECT_EQ(call.counts, (std::vector<Index>{5 * 8192, 0, 7 * 8192}));
}

/// With many rows other ways are as fast, and a large shard would need more room than even ones.
TEST(PushedSum, IsForFewRowsInEvenShards) {
  const std::int64_t most = 1024;  // of 16 KiB
  for (const Op op : {Op::gemm_rs, Op::gemm_ar}) {
    EXPECT_FALSE(pushed(problem(op, most, 4)).empty());
    EXPECT_TRUE(pushed(problem(op, most + 1, 4)).empty());
  }
  Problem p = problem(Op::gemm_rs, 256, 4);
  p.rows = {61, 65, 65, 65};
  EXPECT_TRUE(pushed(p).empty());
  p.rows = {64, 64, 64, 64};
  EXPECT_FALSE(pushed(p).empty());
}

}  // namespace
}  // namespace tilelace::plan
