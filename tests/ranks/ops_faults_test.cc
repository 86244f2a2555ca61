// SPDX-License-Identifier: Apache-2.0
// What fails on the way: a prepare without memory, a tile that was not prepared, an actor that
// throws in the middle of a call. Every rank learns of it, and nobody waits for the bound.
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

}  // namespace
}  // namespace tilelace::usage
