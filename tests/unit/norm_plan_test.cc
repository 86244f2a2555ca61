// SPDX-License-Identifier: Apache-2.0
// Plans of all_reduce_norm on GPUs: every row has a place, in staging that has room, and CTAs that
// share a row are whole clusters.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "plan/collectives/norm.h"

namespace tilelace::plan {
namespace {

struct Drawn {
  NormCall call;
  CollectiveMachine machine;
  CollectiveOptions options;
  std::string text;
};

Drawn draw(std::mt19937& rng) {
  const auto below = [&](unsigned n) { return static_cast<Index>(rng() % n); };
  Drawn d;
  d.call.rows = below(3) == 0 ? below(5000) : below(140);
  d.call.cols = 8 * (1 + (below(2) == 0 ? below(2048) : below(100)));
  d.call.sum.item = Item::bf16;
  d.call.sum.ranks = static_cast<int>(2 + below(7));
  d.machine.workers = static_cast<int>(below(3) == 0 ? 1 + below(16) : 132);
  d.machine.shared = below(4) == 0;
  if (below(4) == 0) d.options.workers = static_cast<int>(1 + below(40));
  if (below(4) == 0) d.options.chunk = 1 + below(100000);
  if (below(3) == 0) d.options.lines = false;
  d.text = fmt::format("m {} n {} ranks {} workers {} of {} chunk {} shared {}", d.call.rows,
                       d.call.cols, d.call.sum.ranks, d.options.workers.value_or(0),
                       d.machine.workers, d.options.chunk.value_or(0), d.machine.shared);
  return d;
}

TEST(NormPlan, EveryRowHasAPlace) {
  std::mt19937 rng(11);
  int shared = 0;
  for (int i = 0; i < 5000; ++i) {
    const Drawn d = draw(rng);
    SCOPED_TRACE(d.text);
    const CollectivePlan p = plan_norm(d.call, d.machine, d.options);
    const int parts = row_parts(d.call, p);
    shared += parts > 1 ? 1 : 0;
    ASSERT_GE(p.workers, 1);
    ASSERT_LE(p.workers, kMostCtas);
    ASSERT_EQ(p.workers % parts, 0);
    ASSERT_LE(parts, d.machine.shared ? 2 : 4);
    ASSERT_EQ(p.chunk % kLineGroup, 0);
    ASSERT_TRUE(!d.machine.shared || p.workers == 1 || p.workers % 2 == 0);
    if (parts > 1) {
      ASSERT_TRUE(p.lines);
      ASSERT_EQ(p.workers, std::max<Index>(1, d.call.rows) * parts);
      ASSERT_GE(p.chunk * parts * 16, d.call.cols * 2);
    } else {
      ASSERT_EQ(p.chunk % row_places(d.call), 0);
    }
    const schedule::Exchange s = place_norm(d.call, p, 0);
    ASSERT_LE(s.num_units() * (p.lines ? kBytesOfLines : schedule::kUnitBytes),
              p.lines ? kLineBytes : kStagedBytes);
    ASSERT_TRUE(!p.lines || s.rounds() <= 1);
    const Index row = parts > 1 ? parts * p.chunk : row_places(d.call);
    ASSERT_EQ(row, parts * part_places(d.call, p));
    Index units = 0;
    for (Index piece = 0; piece < p.pieces; ++piece)
      units += place_norm(d.call, p, piece).takes[d.call.sum.rank];
    ASSERT_EQ(units, d.call.rows * row);
  }
  EXPECT_GT(shared, 100);
}

TEST(NormPlan, FewRowsAreSharedByClusters) {
  NormCall call;
  call.sum.item = Item::bf16;
  call.sum.ranks = 2;
  call.cols = 4096;
  CollectiveMachine machine;
  machine.workers = 132;
  const auto parts_of_rows = [&](Index rows) {
    call.rows = rows;
    return row_parts(call, plan_norm(call, machine, {}));
  };
  EXPECT_EQ(parts_of_rows(1), 4);
  EXPECT_EQ(parts_of_rows(33), 4);
  EXPECT_EQ(parts_of_rows(34), 2);
  EXPECT_EQ(parts_of_rows(66), 2);
  EXPECT_EQ(parts_of_rows(67), 1);
  machine.shared = true;
  EXPECT_EQ(parts_of_rows(1), 2);
}

}  // namespace
}  // namespace tilelace::plan
