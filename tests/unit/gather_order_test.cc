// SPDX-License-Identifier: Apache-2.0
// What GatherOrder says that the checker, which walks it (tests/protocol), does not ask: which
// tiles come first.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "plan/ways/ag_gemm_way.h"
#include "schedule/make_gather_order.h"

namespace tilelace::schedule {
namespace {

/// A random problem of one rank.
struct Trial {
  std::vector<Index> borders;
  AgGemm gather;
  GemmOrder walk;
};

Trial make_trial(std::mt19937& rng, bool even) {
  const auto any = [&](Index most) {
    return 1 + static_cast<Index>(rng() % static_cast<unsigned>(most));
  };
  Trial t;
  AgGemm& s = t.gather;
  const int ranks = static_cast<int>(any(kMaxSections));
  s.route = {RouteKind::mesh, ranks, ranks};
  s.rank = static_cast<int>(any(ranks)) - 1;
  s.split.ranks = ranks;
  s.split.m = any(2000);
  if (!even) {
    t.borders = {0};
    for (int r = 1; r <= ranks; ++r) t.borders.push_back(t.borders.back() + any(300) - 1);
    t.borders.back() += 1;  // not all empty
    s.split.m = t.borders.back();
    s.split.borders = t.borders.data();  // stays where it is when the trial is moved
  }
  s.tile_m = static_cast<int>(64 * any(4));
  s.cols = any(9);
  s.chunk_rows = any(400);
  const int rows = static_cast<int>(ceil_div(s.split.m, s.tile_m));
  t.walk = {rows,           static_cast<int>(s.cols), static_cast<int>(any(9)),
            rng() % 2 == 0, static_cast<int>(any(4)), static_cast<int>(any(4))};
  return t;
}

GatherJoins make_joins(std::mt19937& rng, Index tiles) {
  GatherJoins joins;
  for (int& after : joins.after)
    after = static_cast<int>(rng() % 3 * (rng() % static_cast<unsigned>(1 + tiles / 2)));
  return joins;
}

struct Flags {
  std::set<Index> seen;
  void wait(Index flag) { seen.insert(flag); }
};

using Cell = std::tuple<int, Index, Index, Index>;  // source, rows, column

TEST(PushOrder, SendsEveryChunkToEveryPeerOnce) {
  std::mt19937 rng(7);
  for (int i = 0; i < 300; ++i) {
    const Trial t = make_trial(rng, i % 2 == 0);
    const PushOrder o = make_push_order(t.gather, i % 5 == 0);
    std::map<std::pair<int, Index>, Index> rows;  // peer, first row: rows
    std::set<std::pair<int, int>> flags;
    for (int piece = 0; piece < o.pieces; ++piece) {
      const PushOrder::Send s = o.piece(piece);
      EXPECT_LT(s.first, s.last);
      EXPECT_TRUE(rows.emplace(std::pair{s.peer, s.first}, s.last - s.first).second);
      EXPECT_TRUE(flags.emplace(s.peer, s.flag).second);
    }
    Index sum = 0;
    for (const auto& [to, count] : rows) sum += count;
    EXPECT_EQ(sum, o.rows * o.targets);
  }
}

TEST(GatherOrder, ShardsApartComeInOrderOfArrival) {
  std::mt19937 rng(5);
  for (int i = 0; i < 500; ++i) {
    const Trial t = make_trial(rng, i % 2 == 0);
    const int apart = 1 + i % kMaxSections;
    const GatherOrder o = make_gather_order(t.gather, t.walk, t.gather.tile_m, false, apart);
    int section = 0;
    for (int j = 0; j < o.tiles(); ++j) {
      const int next = o.cell(j).section;
      ASSERT_TRUE(next >= section || section >= apart);
      ASSERT_EQ(o.shard[next].source, t.gather.route.gather_order(t.gather.rank, next));
      section = next;
    }
  }
}

/// Hosts have more ranks than kernels, and look for walks otherwise: where both can, they agree.
TEST(GatherOrder, OfHostsItIsThatOfKernels) {
  std::mt19937 rng(11);
  for (int i = 0; i < 500; ++i) {
    const Trial t = make_trial(rng, i % 2 == 0);
    const bool whole = i % 5 == 0;
    const int apart = i % 4 == 0 ? 0 : 1 + i % kMaxSections;
    const GatherJoins joins = make_joins(rng, t.gather.num_tiles());
    const auto few = make_gather_order(t.gather, t.walk, t.gather.tile_m, whole, apart, joins);
    const auto many = make_gather_order<64>(t.gather, t.walk, t.gather.tile_m, whole, apart, joins);
    ASSERT_EQ(few.tiles(), many.tiles());
    for (int j = 0; j < few.tiles(); ++j) {
      const GemmCell a = few.cell(j), b = many.cell(j);
      ASSERT_EQ(std::tuple(a.row, a.col, a.section), std::tuple(b.row, b.col, b.section));
      const int first = few.begin(a.section) + a.row * t.gather.tile_m;
      const int last = std::min(first + t.gather.tile_m, few.end(a.section));
      Flags ours, theirs;
      few.wait_for_rows(a.section, first, last, ours);
      many.wait_for_rows(a.section, first, last, theirs);
      ASSERT_EQ(ours.seen, theirs.seen);
    }
  }
}

/// Not before they are expected, unless nothing else is left; from there on with all those in front
/// of them, column by column.
TEST(GatherOrder, ShardsJoinBehindSoManyTiles) {
  std::mt19937 rng(9);
  int joined = 0;
  for (int i = 0; i < 500; ++i) {
    Trial t = make_trial(rng, i % 2 == 0);
    t.walk.along_cols = false;
    const GatherJoins joins = make_joins(rng, t.gather.num_tiles());
    const GatherOrder o = make_gather_order(t.gather, t.walk, t.gather.tile_m, false, 0, joins);
    const int own = o.tile_rows[0] * t.walk.cols;
    std::map<int, int> walks_of_column;
    for (int w = 0; w < o.walks; ++w)
      for (int c = 0; c < o.walked[w].cols; ++c) ++walks_of_column[o.walked[w].first_col + c];
    for (const auto& [column, walks] : walks_of_column) {
      ASSERT_LE(walks, 2);
      joined += walks == 1 && t.gather.ranks() > 1 && own > 0 ? 1 : 0;
    }
    for (int j = 0; j < o.tiles(); ++j) {
      const int section = o.cell(j).section;
      if (section > 0 && j < own) {
        ASSERT_GE(j, joins.after[section]);
      }
    }
  }
  EXPECT_GT(joined, 200);
}

TEST(GatherOrder, OfOneShardItHasThatShardsTiles) {
  std::mt19937 rng(7);
  for (int i = 0; i < 300; ++i) {
    Trial t = make_trial(rng, i % 2 == 0);
    const GatherOrder all = make_gather_order(t.gather, t.walk, t.gather.tile_m, false);
    int tiles = 0;
    for (int section = 0; section < t.gather.ranks(); ++section) {
      const GatherOrder one = plan::shard_order(all, section);
      ASSERT_EQ(one.tiles(), all.tile_rows[section] * t.walk.cols);
      for (int j = 0; j < one.tiles(); ++j) {
        const GemmCell got = one.cell(j);
        const GemmCell expected = all.cell(tiles + j);
        ASSERT_EQ(got.section, section);
        ASSERT_EQ(std::tuple(got.section, got.row, got.col),
                  std::tuple(expected.section, expected.row, expected.col));
      }
      ASSERT_EQ(one.begin(section), all.begin(section));
      ASSERT_EQ(one.end(section), all.end(section));
      tiles += one.tiles();
    }
    ASSERT_EQ(tiles, all.tiles());
  }
}

}  // namespace
}  // namespace tilelace::schedule
