// SPDX-License-Identifier: Apache-2.0
#include "ops/cases.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tilelace::gpu_test {
namespace {

std::vector<Case> some(int ranks) { return draw_cases(300, ranks, DType::bf16, {}, 7); }

TEST(Cases, StayWithinTheirBounds) {
  for (const int ranks : {2, 3, 4, 8}) {
    for (const Case& c : some(ranks)) {
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
  EXPECT_TRUE(any([](const Case& c) { return c.problem.n.size() == 2; }));
  EXPECT_TRUE(any([](const Case& c) { return c.problem.return_gathered && c.exact; }));
  const auto empty_shard = [](const Case& c) {
    const auto& rows = c.problem.rows;
    return c.problem.m > 0 && std::count(rows.begin(), rows.end(), 0) > 0;
  };
  EXPECT_TRUE(any(empty_shard));
  std::map<std::string, int> kinds;
  for (const Case& c : cases) ++kinds[kind_of(c.plan)];
  for (const char* kind : {"push by shard", "store by shard", "store whole"})
    EXPECT_GT(kinds[kind], 30) << kind;
}

TEST(Cases, AreTheSameOfTheSameSeed) {
  const auto text = [] {
    std::string all;
    for (const Case& c : some(3)) all += text_of(c) + "\n";
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
  for (int row = 0; row < 5; ++row) owners.push_back(owner_of(borders, row));
  EXPECT_EQ(owners, (std::vector<int>{1, 1, 3, 3, 3}));
}

}  // namespace
}  // namespace tilelace::gpu_test
