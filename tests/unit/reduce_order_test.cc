// SPDX-License-Identifier: Apache-2.0
// ReduceOrder says the same as GemmReduce, from which it is made: tiles, their order by shards, and
// a place of its own for every partial.
#include "schedule/reduce_order.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>
#include <tuple>
#include <vector>

namespace tilelace::schedule {
namespace {

using Cell = std::tuple<int, Index, Index, Index>;  // owner, rows, column

TEST(ReduceOrder, HasTheTilesOfGemmReduceAndAPlaceForEveryPartial) {
  std::mt19937 rng(7);
  const auto any = [&](Index most) {
    return 1 + static_cast<Index>(rng() % static_cast<unsigned>(most));
  };
  for (int i = 0; i < 500; ++i) {
    GemmReduce s;
    const int ranks = static_cast<int>(any(kMaxReduceRanks));
    s.route = {RouteKind::mesh, ranks, ranks};
    s.rank = static_cast<int>(any(ranks)) - 1;
    std::vector<Index> borders{0};
    for (int r = 0; r < ranks; ++r) borders.push_back(borders.back() + any(300) - 1);
    borders.back() += 1;
    const bool uneven = i % 2 == 0;
    s.split = {uneven ? borders.back() : any(3000), ranks, uneven ? borders.data() : nullptr};
    s.tile_m = static_cast<int>(64 * any(4));
    s.cols = any(9);
    s.transport = Transport::store;
    const GemmOrder walk{1, static_cast<int>(s.cols), static_cast<int>(any(9)), rng() % 2 == 0};
    const bool together = i % 4 < 2;
    const ReduceOrder o = make_reduce_order(s, walk, s.tile_m, together);
    ASSERT_EQ(o.tiles(), s.num_tiles());
    std::set<Cell> expected;
    std::set<Cell> found;
    std::set<int> places;
    for (Index j = 0; j < s.num_tiles(); ++j) {
      const ReduceTile tile = s.tile(j);
      expected.emplace(tile.owner, tile.rows.begin, tile.rows.end, tile.col);
      const GemmCell c = o.cell(static_cast<int>(j));
      const OwnedRows& at = o.section[c.section];
      ASSERT_EQ(o.own_tile(static_cast<int>(j)), o.own(c.section));
      if (together) {
        ASSERT_EQ(o.own(c.section), tile.owner == s.rank) << "own shards in another order";
      } else {
        ASSERT_EQ(at.owner, tile.owner) << "order";
      }
      const Index begin = at.begin + Index{c.row} * s.tile_m;
      found.emplace(at.owner, begin, min_of(begin + s.tile_m, at.end), c.col);
      if (!o.own(c.section)) continue;
      for (int q = 0; q < ranks; ++q) {
        ASSERT_TRUE(places.insert(o.partial(q, c)).second) << "two partials in one place";
        ASSERT_LT(o.partial(q, c), o.num_partials());
      }
    }
    ASSERT_EQ(found, expected);
  }
}

/// The sender's place for a partial is the one where its owner looks.
TEST(ReduceOrder, SenderAndOwnerMeanTheSamePlace) {
  std::mt19937 rng(8);
  for (int i = 0; i < 200; ++i) {
    const int ranks = 2 + static_cast<int>(rng() % 7);
    GemmReduce s;
    s.route = {RouteKind::mesh, ranks, ranks};
    s.split = {1 + static_cast<Index>(rng() % 3000), ranks, nullptr};
    s.tile_m = 128;
    s.cols = 5;
    s.transport = Transport::store;
    const GemmOrder walk{1, 5, 3, false};
    const int owner = static_cast<int>(rng() % static_cast<unsigned>(ranks));
    s.rank = owner;
    const ReduceOrder theirs = make_reduce_order(s, walk, s.tile_m);
    s.rank = (owner + 1) % ranks;
    const ReduceOrder ours = make_reduce_order(s, walk, s.tile_m);
    for (int a = 0; a < ours.tiles(); ++a) {
      const GemmCell c = ours.cell(a);
      if (ours.section[c.section].owner != owner) continue;
      for (int b = 0; b < theirs.tiles(); ++b) {
        const GemmCell d = theirs.cell(b);
        if (!theirs.own(d.section) || d.row != c.row || d.col != c.col) continue;
        ASSERT_EQ(ours.partial(s.rank, c), theirs.partial(s.rank, d));
      }
    }
  }
}

/// A call of an even number of ranks, shards of at most `most` rows, and a walk of its columns.
struct PairCall {
  static constexpr int kRows = 64;  ///< of a CTA's tile
  GemmReduce s;
  std::vector<Index> borders{0};
  GemmOrder walk;

  PairCall(std::mt19937& rng, unsigned most) {
    const int ranks = 2 + 2 * static_cast<int>(rng() % (kMaxReduceRanks / 2));
    s.route = {RouteKind::mesh, ranks, ranks};
    for (int r = 0; r < ranks; ++r) borders.push_back(borders.back() + rng() % (most + 1));
    ++borders.back();
    s.split = {borders.back(), ranks, borders.data()};
    s.tile_m = 2 * kRows;
    s.cols = 1 + rng() % 9;
    s.transport = Transport::store;
    walk = {1, static_cast<int>(s.cols), 1 + static_cast<int>(rng() % 9), rng() % 2 == 0};
  }
  [[nodiscard]] PairOrder order(int rank) {
    s.rank = rank;
    return make_pair_order(s, walk, kRows);
  }
};

/// What a CTA of the pair computes, by the shard's rows: owner, row of CTAs' tiles, column.
using PairTile = std::tuple<int, int, int>;

TEST(PairOrder, HasEveryTileOnceAndAPlaceForEveryPartial) {
  std::mt19937 rng(9);
  for (int i = 0; i < 300; ++i) {
    PairCall call(rng, 400);
    const int ranks = call.s.ranks();
    const int rank = static_cast<int>(rng() % static_cast<unsigned>(ranks));
    const PairOrder o = call.order(rank);
    ASSERT_GE(o.rows * PairCall::kRows, call.s.max_shard_rows());
    ASSERT_EQ(o.tiles(), ranks / 2 * o.rows * o.walk.cols);
    std::set<PairTile> found;
    std::set<int> places;
    for (int t = 0; t < o.tiles(); ++t)
      for (int second = 0; second < 2; ++second) {
        GemmCell c = o.cell(t);
        const int row = o.enter(c, second);
        ASSERT_TRUE(found.emplace(o.section[c.section].owner, 2 * c.row + row, c.col).second);
        ASSERT_LT(2 * c.row + row, o.rows);
        ASSERT_EQ(o.own_tile(t) && second == 1, o.own(c.section));
        ASSERT_EQ(o.own_tile(t) && second == 0, o.beside_own(c.section));
        if (!o.own(c.section)) continue;
        for (int q = 0; q < ranks; ++q) {
          ASSERT_TRUE(places.insert(2 * o.partial(q, c) + row).second);
          ASSERT_LT(o.partial(q, c), o.num_partials());
        }
      }
    ASSERT_EQ(std::ssize(found), ranks * o.rows * o.walk.cols);
  }
}

/// Workers take tiles in the order of the walk. A pair's first tile is given before its second, an
/// own one, waits for all peers' terms; then the worker goes on. However few workers a rank has,
/// all get to their ends; and every term has been left where its owner looks.
TEST(PairOrder, NobodyWaitsForEverAndTermsAreWhereTheirOwnersLook) {
  std::mt19937 rng(10);
  for (int i = 0; i < 60; ++i) {
    PairCall call(rng, 300);
    const int ranks = call.s.ranks();
    std::vector<PairOrder> orders;
    std::vector<std::vector<int>> next;  // tile of each worker
    for (int r = 0; r < ranks; ++r) {
      orders.push_back(call.order(r));
      next.emplace_back(1 + rng() % 12);
      std::iota(next.back().begin(), next.back().end(), 0);
    }
    std::set<std::tuple<int, int, int>> left;  // owner, source, place
    const auto play = [&](int r, int t) {
      const PairOrder& o = orders[r];
      bool over = true;
      for (int second = 0; second < 2; ++second) {
        GemmCell c = o.cell(t);
        const int row = o.enter(c, second);
        const auto place = [&](int source) { return 2 * o.partial(source, c) + row; };
        if (!o.own(c.section)) left.emplace(o.section[c.section].owner, r, place(r));
        for (int q = 0; o.own(c.section) && q < ranks; ++q)
          over = over && (q == r || left.contains({r, q, place(q)}));
      }
      return over;
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < ranks; ++r)
        for (int& t : next[r]) {
          if (t >= orders[r].tiles()) continue;
          const std::size_t before = left.size();
          if (play(r, t)) t += static_cast<int>(next[r].size()), moved = true;
          moved = moved || left.size() > before;
        }
    }
    for (int r = 0; r < ranks; ++r)
      for (const int t : next[r]) ASSERT_GE(t, orders[r].tiles()) << "rank " << r;
  }
}

}  // namespace
}  // namespace tilelace::schedule
