// SPDX-License-Identifier: Apache-2.0
// What the public API says at its limits: lists and reasons of any length, no memory, sockets and
// buffers that are not there.
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <sys/socket.h>

#include <array>
#include <cstdio>
#include <limits>
#include <new>

#include "core/points.h"
#include "ops_usage_helpers.h"
#include "tilelace/version.h"

namespace tilelace::usage {
namespace {

TEST(OpsLimits, ListsOfAnyLengthArePreparedAndCompared) {
  World world;
  const auto prepare = [&](int r, std::size_t count) {
    const auto one = preparation(kAllReduce, kRanks, {world.ranks[r].w0.view()});
    world.members[r].prepare(std::vector<Preparation>(count, one));
  };
  constexpr std::size_t kMany = 520;  // their text is longer than one message of ranks
  const auto machine = world.members[0].machine();
  const Problem problem = preparation(kAllReduce, kRanks, {world.ranks[0].w0.view()}).problem;
  const auto said =
      fmt::format("{}; {}\n", fmt::streamed(problem), fmt::streamed(make_plan(problem, machine)));
  ASSERT_GT(kMany * said.size(), 65536U);
  EXPECT_EQ(on_ranks([&](int r) { prepare(r, kMany); }), Texts{});
  for (const auto& text : on_ranks([&](int r) { prepare(r, r == 1 ? kMany + 1 : 1); })) {
    EXPECT_TRUE(text.starts_with("usage: prepare: rank ")) << text;
  }
  world.prepare();
  world.expect_intact();
}

TEST(OpsLimits, TheLibraryHasTheVersionOfItsHeaders) {
  int major = -1, minor = -1, patch = -1;
  ASSERT_EQ(std::sscanf(TILELACE_VERSION_STRING, "%d.%d.%d", &major, &minor, &patch), 3);
  EXPECT_EQ(version(), 10000 * major + 100 * minor + patch);
}

TEST(OpsLimits, ALinkIsKnownForEveryPeer) {
  const auto plain = Communicator::threads(2);
  EXPECT_EQ(plain[0].link_to(1), "shared memory");
  CommunicatorOptions options;
  options.link_latency_s = 1e-6;
  const auto metered = Communicator::threads(2, options);
  EXPECT_EQ(metered[1].link_to(0), "emulated wire");
  for (const int peer : {-1, 0, 2}) {
    try {
      static_cast<void>(plain[0].link_to(peer));
      ADD_FAILURE() << peer;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      EXPECT_EQ(std::string(e.what()),
                fmt::format("communicator: link: got rank {}, expected one from 0 to 1 other than "
                            "this rank, 0",
                            peer));
    }
  }
}

TEST(OpsLimits, ARefusalToPrepareMayHaveAnyReason) {
  World world(kPrepared);
  const std::string most(100'000, 'x');
  for (const auto& reason : {std::string(), most}) {
    const auto texts = on_ranks([&](int r) {
      if (r == 1) return refuse_prepare(world.members[r], reason);
      world.members[r].prepare(world.ranks[r].preparations());
    });
    const std::string text = fmt::format("usage: prepare: rank 1 refused to prepare: {}",
                                         reason.empty() ? "no reason given" : reason);
    EXPECT_EQ(texts, (Texts{text, "", text}));
  }
  world.expect_intact();
}

TEST(OpsLimits, ARankWithoutMemoryEndsTheCallOfEveryRank) {
  World world(kPrepared);
  points::hook = [](const char* here, int rank) {
    if (rank == 1 && std::string_view(here) == "call.enter") throw std::bad_alloc();
  };
  const auto texts = on_ranks([&](int r) { world.ranks[r].good(kScatter).call(world.members[r]); });
  points::hook = nullptr;
  const std::string told = "system: gemm_rs: peer rank 1 aborted the group";
  const std::string own = "system: gemm_rs: rank 1 ran out of memory or threads: std::bad_alloc";
  EXPECT_EQ(texts, (Texts{told, own, told}));
}

TEST(OpsLimits, SocketsAreClosedAlsoWhereTheOptionsAreWrong) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()), 0);
  auto options = test_options();
  options.workers = -1;
  EXPECT_EQ(caught([&] {
              Communicator::from_sockets(0, {-1, ends[0]}, options);
            }),
            "usage: communicator: workers: got -1, expected 0 to 1024");
  EXPECT_TRUE(caught([&] {
                Communicator::from_sockets(1, {ends[1], -1}, test_options());
              }).starts_with("peer: communicator: peer rank 0 is gone"));
}

TEST(OpsLimits, BuffersRefuseWhatTheyDoNotHave) {
  auto one = Communicator::threads(1, test_options());
  SymmetricBuffer shared(one[0], 8);
  DeviceBuffer own(one[0], 8);
  EXPECT_EQ(caught([&] { own.upload(nullptr, 4); }),
            "usage: device buffer: host memory: got null, expected 4 bytes");
  EXPECT_EQ(caught([&] { own.upload(&own, 4, SIZE_MAX); }),
            "usage: device buffer: 4 bytes from byte 18446744073709551615 on exceed the buffer's 8 "
            "bytes");
  EXPECT_EQ(caught([&] { DeviceBuffer(one[0], SIZE_MAX); }),
            "system: out of memory: could not allocate 18446744073709551615 bytes");
  const SymmetricBuffer there(std::move(shared));
  const DeviceBuffer here(std::move(own));
  const std::string rest = " buffer: the object is empty: it was moved from";
  EXPECT_EQ(caught([&] { static_cast<void>(shared.local()); }), "usage: symmetric" + rest);
  EXPECT_EQ(caught([&] { static_cast<void>(shared.bytes()); }), "usage: symmetric" + rest);
  EXPECT_EQ(caught([&] { static_cast<void>(own.data()); }), "usage: device" + rest);
}

TEST(OpsLimits, MachinesOfNoRankAreRefused) {
  EXPECT_EQ(caught([] { cpu_machine(0, 1); }),
            "usage: cpu_machine: ranks: got 0, expected 1 to 64");
}

}  // namespace
}  // namespace tilelace::usage
