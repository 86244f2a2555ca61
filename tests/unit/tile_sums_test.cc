// SPDX-License-Identifier: Apache-2.0
// Sums of whole tiles: how a tile is shared, and in which order its roles go. That calls end and
// nothing races is checked with all schedules (tests/protocol).
#include "schedule/tile_sums.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tilelace::schedule {
namespace {

TEST(TileSums, SharesOfAPartAreAllItsPiecesAndEven) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int pieces = 0; pieces <= 200; ++pieces) {
      int next = 0;
      for (int r = 0; r < ranks; ++r) {
        const PieceRange mine = pieces_of(r, ranks, pieces);
        EXPECT_EQ(mine.begin, next);
        EXPECT_GE(mine.end - mine.begin, pieces / ranks);
        EXPECT_LE(mine.end - mine.begin, pieces / ranks + 1);
        next = mine.end;
      }
      EXPECT_EQ(next, pieces);
    }
}

TEST(TileSums, CountsOfPartsAreTheirOwn) {
  std::vector<int> used(static_cast<std::size_t>(num_counts(50)), 0);
  for (int part = 0; part < 50; ++part) {
    ++used.at(static_cast<std::size_t>(given_count(part)));
    ++used.at(static_cast<std::size_t>(summed_count(part)));
  }
  for (const int times : used) EXPECT_EQ(times, 1);
}

/// "name tile", in order.
struct Words {
  std::vector<std::string> said;
  void say(const char* what, int tile) { said.push_back(what + std::to_string(tile)); }

  void skip(GemmSegment s) { say("skip ", s.tile); }
  void multiply(GemmSegment s) { say("multiply ", s.tile); }
  void admit() { said.emplace_back("admit"); }
  void give(GemmCell c) { say("give ", c.row); }
  void tell_given(int t) { say("tell given ", t); }
  void await_given(int t) { say("await given ", t); }
  void reduce(int t, GemmCell /*c*/) { say("reduce ", t); }
  void tell_summed(int t) { say("tell summed ", t); }
  void await_summed(int t) { say("await summed ", t); }
  void deliver(int t, GemmCell /*c*/) { say("deliver ", t); }
};

GemmWork work(int tiles, int workers) {
  GemmOrder order;
  order.rows = tiles;
  order.cols = 1;
  return make_gemm_work(order, workers, 3, 0);
}

TEST(TileSums, ATileIsToldAtOnce) {
  Words v;
  EXPECT_EQ(run_sums_math(work(3, 1), 0, 0, 2, v), 2);
  EXPECT_EQ(v.said,
            (std::vector<std::string>{"multiply 0", "give 0", "admit", "tell given 0", "skip 1",
                                      "multiply 2", "give 2", "admit", "tell given 2"}));
}

TEST(TileSums, TheEndOfATileComesBehindTheSumsOfTheNext) {
  Words v;
  run_sums_reduce(work(7, 2), 0, 2, v);
  EXPECT_EQ(v.said,
            (std::vector<std::string>{
                "admit", "await given 0", "reduce 0", "tell summed 0", "await given 2", "reduce 2",
                "tell summed 2", "await summed 0", "deliver 0", "await summed 2", "deliver 2"}));
}

TEST(TileSums, AGroupEndsItsLastTile) {
  Words v;
  sum_last(work(7, 2), 6, v);
  EXPECT_EQ(v.said, (std::vector<std::string>{"admit", "await given 6", "reduce 6", "tell summed 6",
                                              "await summed 6", "deliver 6"}));
}

/// How often tiles are summed.
struct Counts {
  std::vector<int> times;
  void skip(GemmSegment /*s*/) {}
  void multiply(GemmSegment /*s*/) {}
  void admit() {}
  void give(GemmCell /*c*/) {}
  void tell_given(int /*t*/) {}
  void await_given(int /*t*/) {}
  void reduce(int t, GemmCell /*c*/) { ++times.at(static_cast<std::size_t>(t)); }
  void tell_summed(int /*t*/) {}
  void await_summed(int /*t*/) {}
  void deliver(int /*t*/, GemmCell /*c*/) {}
};

TEST(TileSums, EveryTileIsSummedOnce) {
  for (int tiles = 1; tiles <= 40; ++tiles)
    for (int workers = 1; workers <= 12; ++workers)
      for (int lanes = 1; lanes <= 2; ++lanes) {
        Counts v{std::vector<int>(static_cast<std::size_t>(tiles), 0)};
        const GemmWork all = work(tiles, workers);
        for (int w = 0; w < workers; ++w) {
          for (int lane = 0; lane < lanes; ++lane)
            sum_last(all, run_sums_math(all, w, lane, lanes, v), v);
          run_sums_reduce(all, w, lanes, v);
        }
        for (const int times : v.times) EXPECT_EQ(times, 1) << tiles << " " << workers;
      }
}

TEST(TileSums, AWorkerWithoutTilesOnlyEnters) {
  Words v;
  sum_last(work(1, 2), run_sums_math(work(1, 2), 1, 0, 2, v), v);
  run_sums_reduce(work(1, 2), 1, 2, v);
  EXPECT_EQ(v.said, (std::vector<std::string>{"admit"}));
}

}  // namespace
}  // namespace tilelace::schedule
