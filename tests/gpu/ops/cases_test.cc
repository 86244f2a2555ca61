// SPDX-License-Identifier: Apache-2.0
#include "ops/cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "plan/gpu/kernel_choice.h"
#include "tilelace/error.h"

namespace tilelace::gpu_test {
namespace {

std::vector<Case> draw(int ranks, Op op, int count) {
  return draw_cases(count, {.op = op, .ranks = ranks}, 7);
}

/// Drawn once.
const std::vector<Case>& some(int ranks, Op op = Op::ag_gemm, int count = 300) {
  static std::map<std::tuple<int, Op, int>, std::vector<Case>> drawn;
  auto& cases = drawn[{ranks, op, count}];
  if (cases.empty()) cases = draw(ranks, op, count);
  return cases;
}

CaseRange of_kinds(Op op, int ranks, std::vector<std::string> kinds) {
  return {.op = op, .ranks = ranks, .ways = {.kinds = std::move(kinds)}};
}

TEST(Cases, StayWithinTheirBounds) {
  for (const int ranks : {2, 3, 4, 8}) {
    std::vector<Case> cases;
    for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar})
      for (const Case& c : draw(ranks, op, 100)) cases.push_back(c);
    for (const Case& c : cases) {
      const Problem& p = c.problem;
      EXPECT_TRUE(p.m >= 0 && p.m <= kMostRows) << text_of(c);
      EXPECT_TRUE(p.k >= 8 && p.k <= kMostK && p.k % 8 == 0) << text_of(c);
      EXPECT_TRUE(!p.n.empty() && p.n.size() <= kMostWeights) << text_of(c);
      for (const std::int64_t n : p.n)
        EXPECT_TRUE(n >= 8 && n <= kMostCols && n % 8 == 0) << text_of(c);
      EXPECT_EQ(borders_of(p).back(), p.m) << text_of(c);
      EXPECT_GE(c.plan.chunk_rows, 1) << text_of(c);
    }
  }
}

TEST(Cases, MeetTheEdges) {
  const auto cases = some(4);
  const auto any = [&](const auto& what) { return std::any_of(cases.begin(), cases.end(), what); };
  EXPECT_TRUE(any([](const Case& c) { return c.problem.m == 0; }));
  EXPECT_TRUE(any([](const Case& c) { return c.problem.m == 1; }));
  EXPECT_TRUE(any([](const Case& c) { return c.problem.m == 3; }));
  EXPECT_TRUE(any([](const Case& c) { return c.problem.m % 4 != 0 && c.problem.rows.empty(); }));
  EXPECT_TRUE(any([](const Case& c) { return c.problem.k % 16 == 8; }));
  for (const std::size_t weights : {1U, 2U, 3U, 4U, 5U})
    EXPECT_TRUE(any([&](const Case& c) { return c.problem.n.size() == weights; })) << weights;
  EXPECT_TRUE(any([](const Case& c) { return c.problem.return_gathered && c.exact; }));
  const auto empty_shard = [](const Case& c) {
    const auto& rows = c.problem.rows;
    return c.problem.m > 0 && std::count(rows.begin(), rows.end(), 0) > 0;
  };
  EXPECT_TRUE(any(empty_shard));
  std::map<std::string, int> kinds;
  for (const Case& c : cases) ++kinds[plan::kind_of(c.plan)];
  EXPECT_EQ(kinds.size(), 8U);
  for (const char* kind : {"push by shard", "pull by shard", "ring by shard", "store by shard",
                           "store whole", "medium push"})
    EXPECT_GT(kinds[kind], 30) << kind;
  for (const char* kind : {"push by shard with shared steps", "store by shard with shared steps"})
    EXPECT_GT(kinds[kind], 5) << kind;  // of fewer problems
}

TEST(Cases, OfSomeKindsHaveNoOthers) {
  std::map<std::string, int> kinds;
  for (const Case& c :
       draw_cases(50, of_kinds(Op::ag_gemm, 4, {"ring by shard", "pull by shard"}), 7))
    ++kinds[plan::kind_of(c.plan)];
  EXPECT_EQ(kinds.size(), 2U);
  EXPECT_GT(kinds["ring by shard"], 10);
  EXPECT_GT(kinds["pull by shard"], 10);
}

TEST(Cases, OfKindsThatNoProblemHasAreRefused) {
  CaseRange range = of_kinds(Op::ag_gemm, 2, {"ring by shard"});
  EXPECT_EQ(draw_cases(1, range, 7).size(), 1U);
  range.ways.machine.multiprocessors = 16;  // too few for copies that are handed on
  EXPECT_THROW((void)draw_cases(1, range, 7), Error);
}

TEST(Cases, HaveOneWithoutRows) {
  for (const std::uint64_t seed : {1U, 2U, 3U})
    EXPECT_EQ(draw_cases(5, {.op = Op::ag_gemm, .ranks = 2}, seed).back().problem.m, 0);
}

TEST(Cases, OfSwigluMeetEveryGatedTileAndKind) {
  std::map<std::string, int> tiles, kinds;
  int biased = 0;
  for (const Case& c : draw_cases(500, {.op = Op::ag_gemm, .ranks = 4, .gated = true}, 7)) {
    const Problem& p = c.problem;
    EXPECT_EQ(p.activation, Activation::swiglu) << text_of(c);
    EXPECT_FALSE(c.exact) << text_of(c);
    EXPECT_TRUE(p.n.size() == 2 && p.n[0] == p.n[1]) << text_of(c);
    const plan::GemmTile& tile = plan::gemm_of(c.plan.kernel->way).tile;
    EXPECT_TRUE(plan::can_gate(tile)) << text_of(c);
    ++tiles[std::string(tile.name)];
    ++kinds[plan::kind_of(c.plan)];
    biased += p.bias ? 1 : 0;
  }
  EXPECT_EQ(tiles.size(), 16U);
  EXPECT_EQ(kinds.size(), 8U);
  EXPECT_GT(biased, 100);
}

TEST(Cases, HaveSomeOfSwiglu) {
  const auto cases = some(4);
  const auto gated = std::count_if(cases.begin(), cases.end(), [](const Case& c) {
    return c.problem.activation == Activation::swiglu;
  });
  EXPECT_GT(gated, 20);
}

TEST(Cases, OfGemmRsMeetTheEdges) {
  const auto cases = some(4, Op::gemm_rs);
  const auto any = [&](const auto& what) { return std::any_of(cases.begin(), cases.end(), what); };
  EXPECT_TRUE(any([](const Case& c) { return c.problem.m == 0; }));
  EXPECT_TRUE(any([](const Case& c) { return c.problem.m == 1; }));
  EXPECT_TRUE(any([](const Case& c) { return c.problem.m == 3; }));
  EXPECT_TRUE(any([](const Case& c) { return c.problem.m % 4 != 0 && c.problem.rows.empty(); }));
  EXPECT_TRUE(any([](const Case& c) { return c.problem.bias; }));
  EXPECT_TRUE(any([](const Case& c) { return c.problem.residual && c.exact; }));
  EXPECT_TRUE(any([](const Case& c) { return c.problem.residual && !c.exact; }));
  EXPECT_TRUE(any([](const Case& c) { return c.problem.activation != Activation::none; }));
  EXPECT_TRUE(any([](const Case& c) {
    const auto& rows = c.problem.rows;
    return c.problem.m > 0 && std::count(rows.begin(), rows.end(), 0) > 0;
  }));
  for (const Case& c : cases) {
    EXPECT_EQ(c.problem.n.size(), 1U) << text_of(c);
    EXPECT_FALSE(c.problem.return_gathered) << text_of(c);
  }
}

TEST(Cases, OfSumsMeetEveryKindOfPlan) {
  const auto kinds_of = [](Op op, int count) {
    std::map<std::string, int> kinds;
    for (const Case& c : some(4, op, count)) ++kinds[plan::kind_of(c.plan)];
    return kinds;
  };
  auto scatter = kinds_of(Op::gemm_rs, 400);
  EXPECT_EQ(scatter.size(), 7U);
  for (const char* kind : {"store by shard", "store by shard across", "store by pairs",
                           "unfused pull", "medium push", "unfused push", "unfused push by lines"})
    EXPECT_GT(scatter[kind], 20) << kind;
  auto reduce = kinds_of(Op::gemm_ar, 300);
  EXPECT_EQ(reduce.size(), 10U);
  for (const char* kind :
       {"store", "store by columns", "store by columns in rounds", "pull in two shots",
        "unfused pull", "unfused store", "unfused push in one shot", "unfused push in two shots",
        "unfused push in one shot by lines", "unfused push in two shots by lines"})
    EXPECT_GT(reduce[kind], 12) << kind;
  for (const Case& c : some(4, Op::gemm_ar)) EXPECT_TRUE(c.problem.rows.empty()) << text_of(c);
}

TEST(Cases, AreOfKnownKinds) {
  for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar})
    for (const int ranks : {2, 4})
      for (const Case& c : draw(ranks, op, 100))
        EXPECT_EQ(std::count(plan::known_kinds().begin(), plan::known_kinds().end(),
                             plan::kind_of(c.plan)),
                  1)
            << plan::kind_of(c.plan);
}

TEST(Cases, ThatPullAreThereForEveryGemmAr) {
  const std::vector<std::string> named{"pull in one shot", "pull in two shots"};
  for (const int ranks : {2, 4}) {
    const auto cases = draw_cases(200, of_kinds(Op::gemm_ar, ranks, named), 3);
    std::map<std::string, int> kinds;
    for (const Case& c : cases) {
      ++kinds[plan::kind_of(c.plan)];
    }
    EXPECT_EQ(kinds["pull in one shot"] > 30, ranks == 2);
    EXPECT_GT(kinds["pull in two shots"], 60);
  }
}

TEST(Cases, OfPairsHaveFewWorkersNowAndThen) {
  int few = 0;
  for (const Case& c : draw_cases(200, of_kinds(Op::gemm_rs, 2, {"store by pairs"}), 3)) {
    EXPECT_TRUE(c.plan.straddle) << text_of(c);
    few += c.plan.workers < c.problem.n[0] / plan::gemm_of(c.plan.kernel->way).tile.width ? 1 : 0;
  }
  EXPECT_GT(few, 5);
}

TEST(Cases, OfDifferentTilesAreAllMet) {
  std::map<std::string, int> tiles;
  for (const Case& c : some(4, Op::gemm_rs)) ++tiles[sort_of(c.plan)];
  EXPECT_GT(tiles.size(), 3U);
}

TEST(OpShape, OfASumHasAPartOfEveryRank) {
  Problem p;
  p.op = Op::gemm_rs;
  p.ranks = 3;
  p.m = 7;
  const test::OpShape s(p, 1);
  EXPECT_EQ(s.parts, 3);
  EXPECT_EQ(s.own_part, 1);
  EXPECT_EQ(s.input_row, 0);
  EXPECT_EQ(s.inputs, 7);
  EXPECT_EQ(s.result_row, 3);
  EXPECT_EQ(s.results, 2);
}

TEST(OpShape, OfASumForAllHasAllRowsAsItsResult) {
  Problem p;
  p.op = Op::gemm_ar;
  p.ranks = 3;
  p.m = 7;
  const test::OpShape s(p, 1);
  EXPECT_EQ(s.parts, 3);
  EXPECT_EQ(s.own_part, 1);
  EXPECT_EQ(s.inputs, 7);
  EXPECT_EQ(s.result_row, 0);
  EXPECT_EQ(s.results, 7);
}

TEST(OpShape, OfAGatherHasAllRowsAsItsResult) {
  Problem p;
  p.ranks = 3;
  p.m = 7;
  const test::OpShape s(p, 1);
  EXPECT_EQ(s.parts, 1);
  EXPECT_EQ(s.own_part, 0);
  EXPECT_EQ(s.input_row, 3);
  EXPECT_EQ(s.inputs, 2);
  EXPECT_EQ(s.result_row, 0);
  EXPECT_EQ(s.results, 7);
}

TEST(Cases, AreTheSameOfTheSameSeed) {
  const auto text = [] {
    std::string all;
    for (const Case& c : draw(3, Op::ag_gemm, 100)) all += text_of(c) + "\n";
    return all;
  };
  EXPECT_EQ(text(), text());
}

TEST(Cases, OwnerIsTheRankWhoseShardHasTheRow) {
  Problem p;
  p.ranks = 4;
  p.m = 5;
  p.rows = {0, 2, 0, 3};
  const auto borders = borders_of(p);
  std::vector<int> owners;
  for (int row = 0; row < 5; ++row) owners.push_back(test::owner_of(borders, row));
  EXPECT_EQ(owners, (std::vector<int>{1, 1, 3, 3, 3}));
}

}  // namespace
}  // namespace tilelace::gpu_test
