// SPDX-License-Identifier: Apache-2.0
// What index functions promise, as far as a compiler can decide it.
#include <gtest/gtest.h>

#include "schedule/gather_tiles.h"
#include "schedule/reduce_tiles.h"

namespace tilelace::schedule {
namespace {

constexpr Route kMesh4{RouteKind::mesh, 4, 1};
constexpr Route kRing4{RouteKind::ring, 4, 1};
constexpr Route kTwo8{RouteKind::two_level, 8, 4};

constexpr bool is_tree(Route route) {
  for (int root = 0; root < route.ranks; ++root) {
    int edges = 0;
    for (int r = 0; r < route.ranks; ++r) {
      for (int i = 0; i < route.num_children(root, r); ++i, ++edges) {
        if (!route.is_child(root, r, route.child(root, r, i))) return false;
      }
      int at = r;
      for (int hops = 0; at != root; ++hops, at = route.parent(root, at)) {
        if (hops > route.ranks) return false;
      }
    }
    if (edges != route.ranks - 1) return false;
  }
  return true;
}

constexpr bool orders_hold(Route route) {
  for (int r = 0; r < route.ranks; ++r) {
    unsigned gather = 0;
    unsigned reduce = 0;
    for (int i = 0; i < route.ranks; ++i) {
      gather |= 1U << route.gather_order(r, i);
      reduce |= 1U << route.reduce_order(r, i);
    }
    const unsigned all = (1U << route.ranks) - 1;
    if (gather != all || reduce != all || route.gather_order(r, 0) != r) return false;
    if (route.reduce_order(r, route.ranks - 1) != r) return false;
  }
  return true;
}

static_assert(is_tree(kMesh4) && is_tree(kRing4) && is_tree(kTwo8));
static_assert(orders_hold(kMesh4) && orders_hold(kRing4) && orders_hold(kTwo8));
// Two-level: an all-gather takes the other node's shards last, a reduce-scatter first.
static_assert(kTwo8.gather_order(1, 3) < 4 && kTwo8.gather_order(1, 4) >= 4);
static_assert(kTwo8.reduce_order(1, 3) >= 4 && kTwo8.reduce_order(1, 4) < 4);

constexpr AgGemm gather(Index m, int rank, bool straddle) {
  AgGemm s;
  s.route = kMesh4;
  s.split = {m, 4, nullptr};
  s.rank = rank;
  s.tile_m = 16;
  s.cols = 3;
  s.chunk_rows = 10;
  s.raster_group = 2;
  s.straddle = straddle;
  return s;
}

template <class TileAt>
constexpr bool tiles_cover_once(const AgGemm& s, Index tiles, TileAt tile) {
  for (Index col = 0; col < s.cols; ++col) {
    for (Index row = 0; row < s.split.m; ++row) {
      int times = 0;
      for (Index i = 0; i < tiles; ++i) {
        const GatherTile t = tile(i);
        times += t.col == col && t.rows.begin <= row && row < t.rows.end ? 1 : 0;
      }
      if (times != 1) return false;
    }
  }
  return true;
}
constexpr bool straddling_tiles_hold(Index m, int rank) {
  const AgGemm s = gather(m, rank, true);
  return tiles_cover_once(s, s.num_tiles(), [&](Index i) { return s.tile(i); });
}
constexpr bool walked_tiles_hold(Index m, int rank, const GatherWalking& how) {
  const auto s = make_gather_tiles<kMaxSections>(gather(m, rank, false), how);
  return tiles_cover_once(s, s.order().tiles(),
                          [&](Index i) { return s.at(s.order().cell(static_cast<int>(i))); });
}

static_assert(straddling_tiles_hold(50, 3) && straddling_tiles_hold(3, 1));
static_assert(walked_tiles_hold(50, 0, {}) && walked_tiles_hold(3, 1, {.apart = 0}));
static_assert(walked_tiles_hold(50, 2, {.whole = true, .across = true}));
// Straddling tiles come last.
static_assert(gather(200, 0, true).tile(0).source == 0);
static_assert(gather(200, 0, true).tile(gather(200, 0, true).num_tiles() - 1).source == -1);

constexpr GemmReduce reduce(Index m, bool all_reduce, int blocks) {
  GemmReduce s;
  s.route = kMesh4;
  s.split = {m, 4, nullptr};
  s.tile_m = 4;
  s.cols = 2;
  s.chunk_rows = 6;
  s.all_reduce = all_reduce;
  s.blocks = blocks;
  return s;
}

constexpr bool blocks_cover(const GemmReduce& s) {
  Index next = 0;
  for (int b = 0; b < s.blocks; ++b) {
    for (int q = 0; q < s.ranks(); ++q) {
      if (s.shard(b, q).begin != next) return false;
      next = s.shard(b, q).end;
    }
  }
  return next == s.split.m;
}

static_assert(blocks_cover(reduce(100, true, 3)) && blocks_cover(reduce(7, true, 4)));
static_assert(blocks_cover(reduce(0, true, 2)) && blocks_cover(reduce(33, false, 1)));

TEST(Schedule, OwnShardOfReduceScatterComesLast) {
  const auto s = make_reduce_tiles<kMaxGpuRanks>(reduce(100, false, 1), {});
  const ReduceOrder& o = s.order();
  EXPECT_EQ(s.at(o.cell(0), 0).owner, 1);
  EXPECT_EQ(s.at(o.cell(o.tiles() - 1), 0).owner, 0);
}

TEST(Schedule, LastSuperBlockIsSmallest) {
  const GemmReduce s = reduce(4096, true, 4);
  EXPECT_LT(s.block_rows(3).size(), s.block_rows(0).size());
}

}  // namespace
}  // namespace tilelace::schedule
