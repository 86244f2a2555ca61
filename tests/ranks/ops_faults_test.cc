// SPDX-License-Identifier: Apache-2.0
// What fails on the way: a prepare without memory, a tile that was not prepared, an actor that
// throws in the middle of a call. Every rank learns of it, and nobody waits for the bound.
#include "core/points.h"
#include "ops_usage_helpers.h"

namespace tilelace::usage {
namespace {

TEST(OpsFaults, ACallAfterAPrepareWithoutMemoryIsRefusedAndPrepareThenHelps) {
  World world(kPrepared);
  const auto failed = on_ranks([&](int r) {
    auto p = preparation(kGather, kRanks, {world.ranks[r].w0.view()});
    p.weights.clear();
    p.problem.m = kHuge;
    world.members[r].prepare({&p, 1});
  });
  for (const auto& text : failed) {
    EXPECT_TRUE(text.starts_with("usage: allocate: ")) << text;
  }
  for (const Op op : {kGather, kScatter, kAllReduce}) {
    const auto text = "usage: " + std::string(name_of(op)) +
                      ": got a call before prepare, expected prepare first";
    EXPECT_EQ(on_ranks([&](int r) { world.ranks[r].good(op).call(world.members[r]); }),
              (Texts{text, text, text}));
  }
  world.prepare();
  world.expect_intact();
}

TEST(OpsFaults, ATallerTileThanPreparedIsRefusedOnEveryRank) {
  constexpr std::int64_t kTall = 512;
  World world;
  std::vector<Matrix> x, out;
  for (int r = 0; r < kRanks; ++r) {
    x.emplace_back(kRanks * kTall, kK);
    out.emplace_back(kTall, kN0);
  }
  const auto call = [&](int r, PlanOptions options) {
    GemmReduceArgs args;
    args.m = kRanks * kTall;
    args.x = x[r].view();
    args.weight = world.ranks[r].w0.view();
    args.out = out[r].view();
    gemm_rs(world.members[r], args, options);
  };
  ASSERT_EQ(on_ranks([&](int r) {
              auto p = preparation(kScatter, kRanks, {world.ranks[r].w0.view()});
              p.problem.m = kRanks * kTall;
              p.problem.bias = false;
              world.members[r].prepare({&p, 1});
            }),
            Texts{});
  PlanOptions tall;
  tall.tile_m = 512;
  tall.tile_n = 64;
  const std::string text = "usage: gemm_rs: tile: got 512x64, expected one that was prepared";
  EXPECT_EQ(on_ranks([&](int r) { call(r, tall); }), (Texts{text, text, text}));
  for (const auto& o : out) EXPECT_TRUE(o.untouched());
  EXPECT_EQ(on_ranks([&](int r) { call(r, {}); }), Texts{});
}

TEST(OpsFaults, AProductAloneOnATileThatWasNotPreparedIsRefused) {
  World world;
  ASSERT_EQ(on_ranks([&](int r) {
              auto p = preparation(kScatter, kRanks, {world.ranks[r].w0.view()});
              p.options.tile_m = 1;
              p.options.tile_n = 4;
              world.members[r].prepare({&p, 1});
            }),
            Texts{});
  const std::string text = "usage: gemm_rs: tile: got 64x256, expected one that was prepared";
  EXPECT_EQ(on_ranks([&](int r) {
              auto args = world.ranks[r].good(kAllReduce);
              gemm_only(world.members[r], args.reduce);
            }),
            (Texts{text, text, text}));
  world.prepare();
  world.expect_intact();
}

const char* throwing_point = "";

TEST(OpsFaults, AnActorThatThrowsEndsTheCallOfEveryRank) {
  const std::pair<Op, const char*> cases[] = {{kGather, "copy.before_data"},
                                              {kScatter, "compute.before_product"},
                                              {kAllReduce, "copy.before_data"},
                                              {kAllReduce, "compute.before_product"}};
  for (const auto& [op, point] : cases) {
    SCOPED_TRACE(point);
    World world(kPrepared);
    throwing_point = point;
    points::hook = [](const char* here, int rank) {
      if (rank == 1 && std::string_view(here) == throwing_point)
        throw Error(ErrorKind::system, "point: got a fault, expected none");
    };
    const auto texts = on_ranks([&](int r) {
      auto args = world.ranks[r].good(op);
      args.options.path = Path::fused;
      args.call(world.members[r]);
    });
    points::hook = nullptr;
    const auto told = "system: " + std::string(name_of(op)) +
                      ": peer rank 1 aborted the group, expected it to go on";
    EXPECT_EQ(texts, (Texts{told, "system: point: got a fault, expected none", told}));
  }
}

}  // namespace
}  // namespace tilelace::usage
