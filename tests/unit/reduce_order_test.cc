// SPDX-License-Identifier: Apache-2.0
// What ReduceOrder and PairOrder say that the checker, which walks them (tests/protocol), does not
// ask: which tiles are own ones, before they are looked at.
#include <gtest/gtest.h>

#include <random>
#include <tuple>
#include <vector>

#include "schedule/make_reduce_order.h"

namespace tilelace::schedule {
namespace {

/// Own tiles come last; and hosts, which have more ranks and look for walks otherwise, agree.
TEST(ReduceOrder, SaysWhichTilesAreOwnAndIsThatOfHosts) {
  std::mt19937 rng(7);
  const auto any = [&](Index most) {
    return 1 + static_cast<Index>(rng() % static_cast<unsigned>(most));
  };
  for (int i = 0; i < 500; ++i) {
    GemmReduce s;
    const int ranks = static_cast<int>(any(kMaxGpuRanks));
    s.route = {RouteKind::mesh, ranks, ranks};
    s.rank = static_cast<int>(any(ranks)) - 1;
    std::vector<Index> borders{0};
    for (int r = 0; r < ranks; ++r) borders.push_back(borders.back() + any(300) - 1);
    borders.back() += 1;
    const bool uneven = i % 2 == 0;
    s.split = {uneven ? borders.back() : any(3000), ranks, uneven ? borders.data() : nullptr};
    const int rows = static_cast<int>(64 * any(4));
    const GemmOrder walk{1, static_cast<int>(any(9)), static_cast<int>(any(9)), rng() % 2 == 0};
    const bool together = i % 4 < 2;
    const ReduceOrder o = make_reduce_order(s, walk, rows, together);
    const auto many = make_reduce_order<64>(s, walk, rows, together);
    ASSERT_EQ(o.tiles(), many.tiles());
    bool own = false;
    for (int t = 0; t < o.tiles(); ++t) {
      const GemmCell a = o.cell(t), b = many.cell(t);
      ASSERT_EQ(std::tuple(a.row, a.col, a.section), std::tuple(b.row, b.col, b.section));
      ASSERT_EQ(o.partial(s.rank, a), many.partial(s.rank, b));
      ASSERT_EQ(o.own_tile(t), o.own(a.section));
      ASSERT_TRUE(o.own_tile(t) || !own) << "an own tile before others";
      own = o.own_tile(t);
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
    const int ranks = 2 + 2 * static_cast<int>(rng() % (kMaxGpuRanks / 2));
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

TEST(PairOrder, SaysWhichTilesAreOwnOrBesideOwn) {
  std::mt19937 rng(9);
  for (int i = 0; i < 300; ++i) {
    PairCall call(rng, 400);
    const int rank = static_cast<int>(rng() % static_cast<unsigned>(call.s.ranks()));
    const PairOrder o = call.order(rank);
    ASSERT_GE(o.rows * PairCall::kRows, call.s.max_shard_rows());
    ASSERT_EQ(o.tiles(), call.s.ranks() / 2 * o.rows * o.walk.cols);
    for (int t = 0; t < o.tiles(); ++t)
      for (int second = 0; second < 2; ++second) {
        GemmCell c = o.cell(t);
        const int row = o.enter(c, second);
        ASSERT_LT(2 * c.row + row, o.rows);
        ASSERT_EQ(o.own_tile(t) && second == 1, o.own(c.section));
        ASSERT_EQ(o.own_tile(t) && second == 0, o.beside_own(c.section));
      }
  }
}

}  // namespace
}  // namespace tilelace::schedule
