// SPDX-License-Identifier: Apache-2.0
// What fails on the way: a prepare without memory, a tile that was not prepared, an actor that
// throws in the middle of a call. Every rank learns of it, and nobody waits for the bound.
#include <atomic>
#include <chrono>

#include "comm_helpers.h"
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
    const auto text =
        "usage: " + std::string(name_of(op)) + ": called before prepare: call prepare first";
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
  const std::string text =
      "usage: gemm_rs: tile 512x64 was not prepared: call prepare with the plan's options";
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
  const std::string text =
      "usage: gemm_rs: tile 64x256 was not prepared: call prepare with the plan's options";
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
    const auto told = "system: " + std::string(name_of(op)) + ": peer rank 1 aborted the group";
    const auto own = "system: " + std::string(name_of(op)) + ": point: got a fault, expected none";
    EXPECT_EQ(texts, (Texts{told, own, told}));
  }
}

TEST(OpsFaults, APrepareThatAPeerDoesNotMakeNamesItsOp) {
  World world;
  CommunicatorOptions options = test_options();
  options.timeout_s = 0.3;
  world.members = Communicator::threads(kRanks, options);
  const auto texts = on_ranks([&](int r) {
    const auto p = preparation(kAllReduce, kRanks, {world.ranks[r].w0.view()});
    if (r != 1) world.members[r].prepare({&p, 1});
  });
  EXPECT_EQ(texts[1], "");
  for (const int r : {0, 2}) {
    EXPECT_TRUE(texts[r].starts_with("timeout: prepare of gemm_ar: allocate: ")) << texts[r];
    EXPECT_NE(texts[r].find("rank 1 did not come"), std::string::npos) << texts[r];
  }
}

/// A wire on which 64 bytes take a minute.
CommunicatorOptions slow_wire(double timeout_s) {
  CommunicatorOptions options = test_options();
  options.timeout_s = timeout_s;
  options.link_bytes_per_s = 1;
  return options;
}

TEST(OpsFaults, AWireThatIsSlowerThanTheBoundEndsInTime) {
  World world;
  world.members = Communicator::threads(kRanks, slow_wire(0.5));
  world.prepare();
  const comm::test::Stopwatch watch;
  const auto texts = on_ranks([&](int r) { world.ranks[r].good(kGather).call(world.members[r]); });
  EXPECT_LT(watch.seconds(), 10);
  for (const auto& text : texts) EXPECT_TRUE(text.starts_with("timeout: ag_gemm: ")) << text;
}

std::atomic<bool> sending{false};

TEST(OpsFaults, AnAbortEndsATransferOnASlowWire) {
  World world;
  world.members = Communicator::threads(kRanks, slow_wire(1000));
  world.prepare();
  sending = false;
  points::hook = [](const char* point, int rank) {
    if (rank == 0 && std::string_view(point) == "copy.before_data") sending = true;
  };
  std::thread other([&] {
    while (!sending) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    world.members[2].abort();
  });
  const comm::test::Stopwatch watch;
  const auto texts = on_ranks([&](int r) {
    auto args = world.ranks[r].good(kGather);
    args.options.path = Path::fused;
    args.options.transport = Transport::push;
    args.call(world.members[r]);
  });
  other.join();
  points::hook = nullptr;
  EXPECT_LT(watch.seconds(), 10);
  for (const auto& text : texts) {
    EXPECT_NE(text.find(" rank 2 aborted the group"), std::string::npos) << text;
  }
}

TEST(OpsFaults, AForkedChildThatDestroysACommunicatorLeavesItsParentAlone) {
  auto mesh = comm::make_socket_mesh(2);
  std::array<pid_t, 2> ranks{};
  for (int r = 0; r < 2; ++r) {
    ranks[r] = comm::test::fork_child([&] {
      auto c = Communicator::from_sockets(r, comm::take_row(mesh, r), test_options());
      Rank rank(r);
      const auto p = preparation(kAllReduce, 2, {rank.w0.view()});
      c.prepare({&p, 1});
      if (r == 0) {
        const pid_t child = fork();
        if (child == 0) {
          alarm(5);
          { const Communicator copied = std::move(c); }
          _exit(0);
        }
        CHILD_CHECK(comm::test::status_of(child) == 0);
      }
      rank.good(kAllReduce).call(c);
      CHILD_CHECK(wrong_number(kAllReduce, rank, r, 2).empty());
      c.barrier();
      if (r == 1) _exit(0);  // as if it had died: rank 0 still watches
      CHILD_CHECK(caught([&] { rank.good(kAllReduce).call(c); }) ==
                  "peer: gemm_ar: peer rank 1 is gone (seen by rank 0)");
    });
  }
  comm::take_row(mesh, -1);
  for (const pid_t pid : ranks) EXPECT_EQ(comm::test::status_of(pid), 0);
}

}  // namespace
}  // namespace tilelace::usage
