// SPDX-License-Identifier: Apache-2.0
// Sums by the switch: how a tile is shared, and in which order its roles go. That calls end and
// nothing races is checked with all schedules (tests/protocol).
#include "schedule/multimem_tiles.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tilelace::schedule {
namespace {

TEST(MultimemTiles, SharesOfAPartAreAllItsPiecesAndEven) {
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

TEST(MultimemTiles, CountsOfPartsAreTheirOwn) {
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

TEST(MultimemTiles, ATileIsToldBehindTheNextProductOfItsGroup) {
  Words v;
  run_multimem_math(work(3, 1), 0, 0, 2, v);
  EXPECT_EQ(v.said,
            (std::vector<std::string>{"multiply 0", "give 0", "skip 1", "multiply 2", "admit",
                                      "tell given 0", "give 2", "admit", "tell given 2"}));
}

TEST(MultimemTiles, TheEndOfATileComesBehindTheSumsOfTheNext) {
  Words v;
  run_multimem_reduce(work(3, 2), 0, v);
  EXPECT_EQ(v.said,
            (std::vector<std::string>{
                "admit", "await given 0", "reduce 0", "tell summed 0", "await given 2", "reduce 2",
                "tell summed 2", "await summed 0", "deliver 0", "await summed 2", "deliver 2"}));
}

TEST(MultimemTiles, AWorkerWithoutTilesOnlyEnters) {
  Words v;
  run_multimem_math(work(1, 2), 1, 0, 2, v);
  run_multimem_reduce(work(1, 2), 1, v);
  EXPECT_EQ(v.said, (std::vector<std::string>{"admit"}));
}

}  // namespace
}  // namespace tilelace::schedule
