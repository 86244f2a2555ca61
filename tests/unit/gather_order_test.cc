// SPDX-License-Identifier: Apache-2.0
// GatherOrder says the same as AgGemm, from which it is made: tiles, their order by shards, flags.
#include "schedule/gather_order.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "plan/ag_gemm.h"
#include "schedule/push_order.h"

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

TEST(GatherOrder, ByShardItHasTheTilesAndFlagsOfAgGemm) {
  std::mt19937 rng(5);
  for (int i = 0; i < 500; ++i) {
    Trial t = make_trial(rng, i % 2 == 0);
    const int apart = i % 3 == 0 ? kMaxSections : i % 5;
    const GatherOrder o = make_gather_order(t.gather, t.walk, t.gather.tile_m, false, apart,
                                            make_joins(rng, t.gather.num_tiles()));
    ASSERT_EQ(o.tiles(), t.gather.num_tiles());
    std::set<Cell> expected;
    std::set<Cell> found;
    for (Index j = 0; j < t.gather.num_tiles(); ++j) {
      const GatherTile tile = t.gather.tile(j);
      expected.emplace(tile.source, tile.rows.begin, tile.rows.end, tile.col);
      const GemmCell c = o.cell(static_cast<int>(j));
      const int source = o.shard[c.section].source;
      if (apart > 0 && (c.section < apart || apart >= t.gather.ranks())) {
        ASSERT_EQ(source, tile.source) << "shards in another order";
      }
      const RowRange rows{
          o.begin(c.section) + c.row * t.gather.tile_m,
          min_of(o.begin(c.section) + (c.row + 1) * t.gather.tile_m, o.end(c.section))};
      found.emplace(source, rows.begin, rows.end, c.col);
      Flags ours;
      Flags theirs;
      o.wait_for_rows(c.section, static_cast<int>(rows.begin), static_cast<int>(rows.end), ours);
      detail::wait_for_rows(t.gather, source, rows, theirs);
      ASSERT_EQ(ours.seen, theirs.seen);
    }
    ASSERT_EQ(found, expected);
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

TEST(GatherOrder, WholeItIsThePlainWalkAndWaitsForAllShardsOfATile) {
  std::mt19937 rng(6);
  for (int i = 0; i < 300; ++i) {
    Trial t = make_trial(rng, i % 2 == 0);
    const GatherOrder o = make_gather_order(t.gather, t.walk, t.gather.tile_m, true);
    ASSERT_EQ(o.tiles(), t.walk.tiles());
    for (int j = 0; j < o.tiles(); ++j) {
      const GemmCell c = o.cell(j);
      ASSERT_EQ(c.section, 0);
      ASSERT_EQ(std::pair(c.row, c.col), std::pair(t.walk.cell(j).row, t.walk.cell(j).col));
      const Index begin = Index{c.row} * t.gather.tile_m;
      const RowRange rows{begin, min_of(begin + t.gather.tile_m, t.gather.split.m)};
      Flags ours;
      Flags theirs;
      o.wait_for_rows(0, static_cast<int>(rows.begin), static_cast<int>(rows.end), ours);
      for (int q = 0; q < t.gather.ranks(); ++q)
        detail::wait_for_rows(t.gather, q, intersect(rows, t.gather.split.shard(q)), theirs);
      // Own rows are staged by the kernel itself: a flag for each of their chunks, too.
      const Chunks own = t.gather.chunks(t.gather.rank);
      for (Index chunk = 0; chunk < own.count(); ++chunk)
        if (intersect(rows, own.rows(chunk)).size() > 0)
          theirs.wait(t.gather.rank * t.gather.max_chunks() + chunk);
      ASSERT_EQ(ours.seen, theirs.seen);
    }
  }
}

TEST(GatherOrder, OfSeveralWeightsItHasTheTilesOfEach) {
  std::mt19937 rng(10);
  for (int i = 0; i < 300; ++i) {
    Trial t = make_trial(rng, i % 2 == 0);
    GatherOrder o = make_gather_order(t.gather, t.walk, t.gather.tile_m, true);
    const bool on_rows = i % 3 == 0;
    const int weights = 1 + i % 4;
    int tiles[4] = {};
    std::set<Cell> expected;
    for (int w = 0; w < weights; ++w) {
      tiles[w] = 1 + static_cast<int>(rng() % 9);
      for (int of = 0; of < tiles[w]; ++of)
        for (int across = 0; across < (on_rows ? t.walk.cols : t.walk.rows); ++across)
          expected.emplace(w, on_rows ? of : across, on_rows ? across : of, 0);
    }
    walk_weights(o, tiles, weights, on_rows);
    std::set<Cell> found;
    for (int j = 0; j < o.tiles(); ++j) {
      const GemmCell c = o.cell(j);
      ASSERT_TRUE(found.emplace(c.section, c.row, c.col, 0).second);
      ASSERT_EQ(std::pair(o.begin(c.section), o.end(c.section)), std::pair(0, o.m));
    }
    ASSERT_EQ(found, expected);
  }
}

/// What is sent, and the flags that tell it.
struct Sent {
  const AgGemm& s;
  std::set<std::tuple<int, Index, Index>> pieces;  // rank, own rows
  std::set<std::pair<int, Index>> flags;
  void push(const GatherTransfer& t) { stage({t.source, t.peer, t.chunk, t.rows}); }
  void stage(const GatherTransfer& t) {
    const Index first = s.split.begin(s.rank);
    push(t.peer, t.rows.begin - first, t.rows.end - first);
  }
  void push(int peer, Index first, Index last) { pieces.emplace(peer, first, last); }
  void signal(int peer, Index flag) { ASSERT_TRUE(flags.emplace(peer, flag).second); }
  void wait(Index /*flag*/) {}
};

TEST(PushOrder, SendsWhatAgGemmSendsAndTellsIt) {
  std::mt19937 rng(8);
  for (int i = 0; i < 300; ++i) {
    Trial t = make_trial(rng, i % 2 == 0);
    t.gather.transport = Transport::store;
    t.gather.workers = 1 + i % 5;
    const bool stage = i % 3 != 0;
    Sent theirs{t.gather, {}, {}};
    for (int worker = 0; worker < t.gather.workers; ++worker) {
      run_sends(t.gather, worker, theirs);
      if (stage) run_stage(t.gather, worker, theirs);
    }
    const Chunks own = t.gather.chunks(t.gather.rank);
    for (Index c = 0; stage && c < own.count(); ++c)
      theirs.signal(t.gather.rank, t.gather.rank * t.gather.max_chunks() + c);
    const PushOrder order = make_push_order(t.gather, stage);
    Sent ours{t.gather, {}, {}};
    for (int worker = 0; worker < 7; ++worker) order.run(worker, 7, ours);
    ASSERT_EQ(ours.pieces, theirs.pieces);
    ASSERT_EQ(ours.flags, theirs.flags);
    ASSERT_EQ(order.begin, t.gather.split.begin(t.gather.rank));
  }
}

}  // namespace
}  // namespace tilelace::schedule
