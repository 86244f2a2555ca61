// SPDX-License-Identifier: Apache-2.0
// Finished tiles of a gemm_ar on their way: who collects takes every part of every peer once, by
// the flag that its owner raises for it. That calls end and nothing races is checked with all
// schedules (tests/protocol).
#include "schedule/share_tiles.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "share_shapes.h"

namespace tilelace::schedule {
namespace {

using Place = std::tuple<int, Index, int, int>;  // owner, first row, column, part

struct Shape : ShareShape {
  int parts = 1;

  [[nodiscard]] ShareFlags flags(const ShareOrder& o) const {
    return {parts, o.num_partials() * parts};
  }
  [[nodiscard]] Place place(const ShareOrder& o, GemmCell c, int part) const {
    return {o.section[c.section].owner, o.begin(c.section) + Index{c.row} * worker_rows,
            o.first_col(c.section) + c.col, part};
  }
};

std::vector<Shape> shapes() {
  std::mt19937 rng(15);
  std::vector<Shape> all;
  for (int i = 0; i < 300; ++i) {
    const ShareShape shape = random_shape(rng, i % 4 == 0, 20);
    all.push_back({shape, any(rng, 2) * any(rng, 2)});
  }
  return all;
}

/// What each finished part is told by at its owner's peers.
std::map<Place, int> told_by(const Shape& s, int rank) {
  const ShareOrder o = s.of(rank);
  const ShareFlags flags = s.flags(o);
  std::map<Place, int> told;
  for (int t = 0; t < o.tiles(); ++t) {
    const GemmCell c = o.cell(t);
    if (!o.own(c.section)) continue;
    for (int part = 0; part < s.parts; ++part)
      told[s.place(o, c, part)] = flags.shared(o, rank, c) + part;
  }
  return told;
}

TEST(ShareTiles, WhoCollectsTakesEveryPartOfThePeersOnceByItsOwnersFlag) {
  struct Collected {
    std::vector<SharedPart> waited, taken;
    int admitted = 0;
    void admit() { ++admitted; }
    void wait_for(const SharedPart& p) { waited.push_back(p); }
    void deliver(const SharedPart& p) { taken.push_back(p); }
  };
  for (const Shape& s : shapes()) {
    const ShareOrder o = s.of(0);
    std::map<Place, int> expected, found;
    for (int peer = 1; peer < o.ranks; ++peer) expected.merge(told_by(s, peer));
    constexpr int kWorkers = 3;
    for (int w = 0; w < kWorkers; ++w) {
      Collected v;
      run_collect(o, s.flags(o), w, kWorkers, v);
      ASSERT_EQ(v.admitted, 1);
      ASSERT_EQ(v.taken.size(), v.waited.size());
      for (std::size_t i = 0; i < v.taken.size(); ++i) {
        const SharedPart& p = v.taken[i];
        ASSERT_EQ(p.flag, v.waited[i].flag) << "taken before its own wait";
        ASSERT_TRUE(found.emplace(s.place(o, p.cell, p.part), p.flag).second) << "taken twice";
      }
    }
    ASSERT_EQ(found, expected);
  }
}

/// All parts of all owners together are the result, each element once.
TEST(ShareTiles, PartsOfTilesAreTheResultOnce) {
  std::mt19937 rng(16);
  for (int i = 0; i < 40; ++i) {
    ShareShape s = random_shape(rng, false, 6);
    s.split.m = any(rng, 300);
    s.worker_rows = 64;
    s.block_rows = 64 * ceil_div(s.split.max_rows(), 64);
    const int down = any(rng, 2), across = any(rng, 2), groups = any(rng, 2);
    const PartShape part{down, across, groups, 64 / down / groups, 16};
    const int wide = 16 * across;
    const int columns = wide * s.cols - 8 * (any(rng, wide / 8) - 1);
    const auto m = static_cast<int>(s.split.m);
    std::vector<int> times(static_cast<std::size_t>(m) * static_cast<std::size_t>(columns));
    for (int rank = 0; rank < s.split.ranks; ++rank) {
      const ShareOrder o = s.of(rank);
      for (int t = 0; t < o.tiles(); ++t) {
        const GemmCell c = o.cell(t);
        if (!o.own(c.section)) continue;
        for (int p = 0; p < down * across * groups; ++p) {
          const PartPlace at = part_place(o, {0, rank, p, c}, part, columns);
          for (int row = at.row; row < at.row + at.rows; ++row)
            for (int col = at.col; col < at.col + at.cols; ++col)
              ++times.at(static_cast<std::size_t>(row * columns + col));
        }
      }
    }
    for (const int n : times) ASSERT_EQ(n, 1);
  }
}

/// Of a rank: partials and finished tiles have words of their own.
TEST(ShareTiles, FlagsOfDifferentMeaningNeverMeet) {
  for (const Shape& s : shapes()) {
    const ShareOrder o = s.of(0);
    const ShareFlags flags = s.flags(o);
    std::set<int> words;
    for (int t = 0; t < o.tiles(); ++t) {
      const GemmCell c = o.cell(t);
      for (int part = 0; part < s.parts; ++part) {
        const int word = flags.shared(o, o.section[c.section].owner, c) + part;
        ASSERT_TRUE(words.insert(word).second);
        ASSERT_TRUE(word >= flags.first_shared && word < flags.end(o));
      }
    }
  }
}

}  // namespace
}  // namespace tilelace::schedule
