// SPDX-License-Identifier: Apache-2.0
// ShareOrder: every tile of every shard once, own tiles behind the peers' tiles that they need, and
// a place of its own for every partial and every finished tile.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "schedule/make_share_order.h"
#include "share_shapes.h"

namespace tilelace::schedule {
namespace {

using Cell = std::tuple<int, Index, Index, int>;  // owner, rows, column

std::vector<ShareShape> shapes() {
  std::mt19937 rng(9);
  std::vector<ShareShape> all;
  for (int i = 0; i < 300; ++i) all.push_back(random_shape(rng, i % 4 == 0, 9));
  return all;
}

Cell text_of(const ShareOrder& o, GemmCell c, int worker_rows) {
  const Index begin = o.begin(c.section) + Index{c.row} * worker_rows;
  return {o.section[c.section].owner, begin, min_of(begin + worker_rows, Index{o.end(c.section)}),
          o.first_col(c.section) + c.col};
}

/// Of every owner's tiles; by columns also those beyond the last one.
std::set<Cell> tiles_of(const ShareShape& s) {
  std::set<Cell> all;
  const auto share = static_cast<int>(ceil_div(s.cols, s.split.ranks));
  for (int q = 0; q < s.split.ranks; ++q) {
    const RowRange shard = s.by_columns ? RowRange{0, s.split.m} : s.split.shard(q);
    const int first = s.by_columns ? q * share : 0;
    const int last = s.by_columns ? first + share : s.cols;
    // Blocks begin at multiples of tiles, so that a shard's tiles are the same in any number.
    for (Index row = shard.begin; row < shard.end; row += s.worker_rows)
      for (int col = first; col < last; ++col)
        all.emplace(q, row, min_of(row + s.worker_rows, shard.end), col);
  }
  return all;
}

TEST(ShareOrder, HasEveryTileOnceAndAPlaceForEach) {
  for (const ShareShape& s : shapes()) {
    const std::set<Cell> expected = tiles_of(s);
    for (int rank = 0; rank < s.split.ranks; ++rank) {
      const ShareOrder o = s.of(rank);
      std::set<Cell> found;
      std::set<int> places, shared;
      ASSERT_EQ(o.tiles(), std::ssize(expected));
      for (int t = 0; t < o.tiles(); ++t) {
        const GemmCell c = o.cell(t);
        ASSERT_TRUE(found.insert(text_of(o, c, s.worker_rows)).second);
        ASSERT_EQ(o.own_tile(t), o.own(c.section));
        const int owner = o.section[c.section].owner;
        ASSERT_TRUE(shared.insert(o.partial(owner, c)).second) << "two finished tiles";
        for (int q = 0; q < o.ranks && o.own(c.section); ++q) {
          ASSERT_TRUE(places.insert(o.partial(q, c)).second) << "two partials in one place";
          ASSERT_LT(o.partial(q, c), o.num_partials());
        }
      }
      ASSERT_EQ(found, expected);
    }
  }
}

/// Steps of a rank's tiles: where each own tile stands behind those at the peers that it needs.
TEST(ShareOrder, OwnTilesComeLagStepsBehindWhatTheyNeed) {
  for (const ShareShape& s : shapes()) {
    const ShareOrder own = s.of(0);
    for (int peer = 1; peer < s.split.ranks; ++peer) {
      const ShareOrder theirs = s.of(peer);
      std::map<int, int> given;  // place at rank 0, step at the peer
      const auto step_of = [&](const ShareOrder& o, GemmCell c) {
        const int block = o.block(c.section);
        const int col = block % 2 != 0 ? o.cols - 1 - c.col : c.col;
        return block * o.cols + col + (o.own(c.section) ? o.lag : 0);
      };
      int before = 0;
      for (int t = 0; t < theirs.tiles(); ++t) {
        const GemmCell c = theirs.cell(t);
        ASSERT_LE(before, step_of(theirs, c)) << "tiles in another order than steps";
        before = step_of(theirs, c);
        if (theirs.section[c.section].owner == 0) given[theirs.partial(peer, c)] = before;
      }
      for (int t = 0; t < own.tiles(); ++t) {
        const GemmCell c = own.cell(t);
        if (!own.own(c.section)) continue;
        const auto at = given.find(own.partial(peer, c));
        ASSERT_NE(at, given.end()) << "a tile that nobody gives";
        ASSERT_EQ(step_of(own, c), at->second + own.lag);
        ASSERT_GE(own.lag, 1);
      }
    }
  }
}

}  // namespace
}  // namespace tilelace::schedule
