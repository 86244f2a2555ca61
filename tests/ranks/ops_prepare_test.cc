// SPDX-License-Identifier: Apache-2.0
// Prepares beside calls and beside each other: what stays, and who is told.
#include <atomic>
#include <string_view>

#include "core/points.h"
#include "ops_usage_helpers.h"

namespace tilelace::usage {
namespace {

TEST(OpsPrepare, WhatIsPreparedBesideStaysPrepared) {
  World world;
  const auto texts = on_ranks([&](int r) {
    auto& member = world.members[r];
    for (const auto& p : world.ranks[r].preparations()) member.prepare_more({&p, 1});
  });
  EXPECT_EQ(texts, Texts{});
  world.expect_intact();
}

std::atomic<int> prepared{0};

void count(const char* point, int) {
  if (std::string_view(point) == points::kPrepared) ++prepared;
}

TEST(OpsPrepare, ANewProblemCostsItselfHoweverManyCameBefore) {
  constexpr int kProblems = 100;
  World world;
  prepared = 0;
  points::hook = count;
  const auto texts = on_ranks([&](int r) {
    for (int i = 0; i < kProblems; ++i) {
      Preparation p = world.ranks[r].preparations().front();
      p.weights.clear();
      p.problem.k = 8 + 4 * i;
      world.members[r].prepare_more({&p, 1});
    }
  });
  points::hook = nullptr;
  EXPECT_EQ(texts, Texts{});
  EXPECT_EQ(prepared, kProblems * kRanks);
}

TEST(OpsPrepare, RanksThatPrepareAnewAndBesideAreToldBoth) {
  World world(kPrepared);
  const auto texts = on_ranks([&](int r) {
    const auto list = world.ranks[r].preparations();
    r == 1 ? world.members[r].prepare(list) : world.members[r].prepare_more(list);
  });
  for (const auto& text : texts) {
    EXPECT_TRUE(text.starts_with("usage: prepare: rank ")) << text;
    EXPECT_NE(text.find("all ranks must do the same"), std::string::npos) << text;
  }
  world.expect_intact();
}

TEST(OpsPrepare, ListsOfOtherLengthsAreCounted) {
  World world;
  const auto texts = on_ranks([&](int r) {
    auto list = world.ranks[r].preparations();
    if (r == 1) list.pop_back();
    world.members[r].prepare(list);
  });
  for (const auto& text : texts) {
    EXPECT_TRUE(text.starts_with("usage: prepare: rank ")) << text;
    EXPECT_NE(text.find("list the same calls on every rank"), std::string::npos) << text;
  }
}

TEST(OpsPrepare, WhatCannotBePreparedBesideLeavesTheRest) {
  World world(kPrepared);
  const auto texts = on_ranks([&](int r) {
    auto p = preparation(kGather, kRanks, {world.ranks[r].w0.view()});
    p.weights.clear();
    p.problem.m = kHuge;
    world.members[r].prepare_more({&p, 1});
  });
  for (const auto& text : texts) EXPECT_TRUE(text.starts_with("usage: allocate: ")) << text;
  world.expect_intact();
}

TEST(OpsPrepare, ARankThatPreparesWhileOthersCallIsToldAndSoAreThey) {
  World world(kPrepared);
  const auto texts = on_ranks([&](int r) {
    if (r == 1) {
      world.members[r].prepare(world.ranks[r].preparations());
    } else {
      world.ranks[r].good(kAllReduce).call(world.members[r]);
    }
  });
  for (const auto& text : texts) {
    EXPECT_NE(text.find("rank 1 called [prepare of 4 problems: "), std::string::npos) << text;
    EXPECT_NE(text.find("called [gemm_ar ranks 3 m 6"), std::string::npos) << text;
    EXPECT_TRUE(text.starts_with("usage: ")) << text;
  }
  world.expect_intact();
}

TEST(OpsPrepare, ARankThatCannotPrepareTellsThoseThatCall) {
  World world(kPrepared);
  const auto texts = on_ranks([&](int r) {
    if (r != 1) return world.ranks[r].good(kAllReduce).call(world.members[r]);
    auto list = world.ranks[r].preparations();
    list[0].problem.k = 0;
    world.members[r].prepare(list);
  });
  const std::string own = "ag_gemm: k: got 0, expected 1 to 1099511627776";
  EXPECT_EQ(texts[1], "usage: " + own);
  for (const auto& text : {texts[0], texts[2]}) {
    EXPECT_NE(text.find("rank 1 called [prepare, refused: " + own + "]"), std::string::npos)
        << text;
  }
  world.expect_intact();
}

}  // namespace
}  // namespace tilelace::usage
