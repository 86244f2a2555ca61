// SPDX-License-Identifier: Apache-2.0
// Groups of threads.
#include <cstring>

#include "comm/std_atomics.h"
#include "comm_helpers.h"

namespace tilelace::comm::test {
namespace {

constexpr std::uint8_t kPeer = static_cast<std::uint8_t>(ErrorKind::peer);

TEST(ThreadGroup, RefusesWrongSizes) {
  EXPECT_EQ(catch_error([] { make_thread_groups(0); }).kind, ErrorKind::usage);
  EXPECT_EQ(catch_error([] { make_thread_groups(65); }).kind, ErrorKind::usage);
  EXPECT_EQ(make_thread_groups(64).size(), 64U);
}

TEST(ThreadGroup, AllGatherGivesEveryonesBytesByRank) {
  for (const int ranks : {1, 2, 5}) {
    auto groups = make_thread_groups(ranks);
    run_threads(ranks, [&](int r) {
      Group& group = *groups[static_cast<std::size_t>(r)];
      EXPECT_EQ(group.rank(), r);
      EXPECT_EQ(group.ranks(), ranks);
      for (int round = 0; round < 100; ++round) {
        const auto all = group.all_gather(std::to_string(r * 1000 + round), 10);
        ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks));
        for (int p = 0; p < ranks; ++p)
          EXPECT_EQ(all[static_cast<std::size_t>(p)], std::to_string(p * 1000 + round));
      }
    });
  }
}

TEST(ThreadGroup, AllGatherBoundsLengthAndTime) {
  auto groups = make_thread_groups(2);
  const std::string most(kMaxPayload, 'x');
  run_threads(2, [&](int r) {
    EXPECT_EQ(groups[static_cast<std::size_t>(r)]->all_gather(most, 10)[0].size(), kMaxPayload);
  });
  const Caught longer = catch_error([&] { groups[0]->all_gather(most + "x", 1); });
  EXPECT_EQ(longer.kind, ErrorKind::usage);
  EXPECT_TRUE(longer.says("65537 bytes, expected at most 65536")) << longer.text;
  EXPECT_EQ(catch_error([&] { groups[0]->all_gather("", 0); }).kind, ErrorKind::usage);
}

TEST(ThreadGroup, AllocatesZeroedPagesThatAllReach) {
  auto groups = make_thread_groups(3);
  std::vector<std::shared_ptr<SymmetricMemory>> held(3);
  run_threads(3, [&](int r) {
    Group& group = *groups[static_cast<std::size_t>(r)];
    auto memory = group.allocate(5000, 10);
    EXPECT_EQ(memory->bytes(), 5000U);
    EXPECT_EQ(memory->stride(), 8192U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->peer(0)) % 4096, 0U);
    EXPECT_EQ(memory->peer(2) - memory->peer(0), 2 * 8192);
    for (std::size_t i = 0; i < memory->stride(); ++i) ASSERT_EQ(memory->peer(r)[i], std::byte{0});
    group.all_gather("", 10);  // before anyone writes, all have looked
    std::memset(memory->peer((r + 1) % 3), r + 1, 5000);
    group.all_gather("", 10);
    EXPECT_EQ(memory->peer(r)[4999], static_cast<std::byte>((r + 2) % 3 + 1));
    held[static_cast<std::size_t>(r)] = memory;
  });
  groups.clear();  // memory outlives the group
  EXPECT_EQ(held[0]->peer(0)[0], std::byte{3});
  std::weak_ptr<SymmetricMemory> watch = held[0];
  held.clear();
  EXPECT_TRUE(watch.expired());
}

TEST(ThreadGroup, DifferentSizesAreAnErrorOnAllRanksAndTheGroupStaysUsable) {
  auto groups = make_thread_groups(3);
  run_threads(3, [&](int r) {
    Group& group = *groups[static_cast<std::size_t>(r)];
    const Caught caught = catch_error([&] { group.allocate(r == 2 ? 4096 : 8192, 10); });
    EXPECT_EQ(caught.kind, ErrorKind::usage);
    EXPECT_TRUE(caught.says("rank 2 passed 4096 bytes, rank 0 passed 8192")) << caught.text;
    const Caught huge = catch_error([&] { group.allocate(std::size_t{1} << 62, 10); });
    EXPECT_EQ(huge.kind, ErrorKind::usage) << huge.text;
    EXPECT_EQ(group.all_gather("x", 10).size(), 3U);
  });
}

TEST(ThreadGroup, DifferentCallsAreAnErrorOnAllRanks) {
  auto groups = make_thread_groups(2);
  run_threads(2, [&](int r) {
    Group& group = *groups[static_cast<std::size_t>(r)];
    const Caught caught = catch_error([&] {
      if (r == 0)
        group.all_gather("", 10);
      else
        group.allocate(1, 10);
    });
    EXPECT_EQ(caught.kind, ErrorKind::usage) << caught.text;
    EXPECT_EQ(group.all_gather("x", 10).size(), 2U);
  });
}

TEST(ThreadGroup, SubgroupTakesTheListedRanksInTheirOrder) {
  auto groups = make_thread_groups(4);
  run_threads(4, [&](int r) {
    Group& group = *groups[static_cast<std::size_t>(r)];
    const std::vector<int> members = r % 2 == 0 ? std::vector{2, 0} : std::vector{1, 3};
    for (int round = 0; round < 3; ++round) {
      auto sub = group.subgroup(members, 10);
      ASSERT_EQ(sub->ranks(), 2);
      EXPECT_EQ(members[static_cast<std::size_t>(sub->rank())], r);
      const auto all = sub->all_gather(std::to_string(r), 10);
      EXPECT_EQ(all[0], std::to_string(members[0]));
      EXPECT_EQ(all[1], std::to_string(members[1]));
      EXPECT_NE(sub->abort_word(), group.abort_word());
    }
    EXPECT_EQ(group.all_gather("", 10).size(), 4U);
  });
}

TEST(ThreadGroup, SubgroupRefusesWrongLists) {
  auto groups = make_thread_groups(3);
  const auto refused = [&](std::vector<int> members) {
    return catch_error([&] { groups[1]->subgroup(members, 1); });
  };
  EXPECT_TRUE(refused({0, 2}).says("this rank, 1, is not among them"));
  EXPECT_TRUE(refused({1, 2, 1}).says("members: got rank 1 twice"));
  EXPECT_TRUE(refused({1, 3}).says("members: got rank 3, expected 0 to 2"));
  EXPECT_TRUE(refused({1, -1}).says("members: got rank -1"));
  EXPECT_EQ(refused({}).kind, ErrorKind::usage);
}

TEST(ThreadGroup, AbortWakesWaitersSoonAndFirstReasonStays) {
  auto groups = make_thread_groups(3);
  run_threads(3, [&](int r) {
    Group& group = *groups[static_cast<std::size_t>(r)];
    if (r == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      group.abort({kPeer, 2, 2});
      group.abort({kPeer, 0, 1});
      EXPECT_EQ(catch_error([&] { group.throw_if_aborted("x"); }).kind, ErrorKind::peer);
      return;
    }
    const Stopwatch watch;
    const Caught caught = catch_error([&] { group.all_gather("", 20); });
    EXPECT_EQ(caught.kind, ErrorKind::peer);
    EXPECT_TRUE(caught.says("all_gather: peer rank 2 aborted the group")) << caught.text;
    EXPECT_LT(watch.seconds(), 5);
    EXPECT_EQ(read_abort<StdAtomics>(group.abort_word()).about, 2);
    const Caught later = catch_error([&] { group.allocate(1, 20); });
    EXPECT_TRUE(later.says("allocate: peer rank 2")) << later.text;
  });
}

TEST(ThreadGroup, ARankPassesOnWhatItWasToldFirst) {
  auto groups = make_thread_groups(3);
  // Rank 1 tells of itself and has come no further than rank 0.
  raise_abort<StdAtomics>(const_cast<AbortWord*>(groups[0]->abort_word()), {kPeer, 1, 1});
  groups[0]->abort({kPeer, 0, 0});
  const Caught caught = catch_error([&] { groups[2]->throw_if_aborted("x"); });
  EXPECT_TRUE(caught.says("x: peer rank 1 aborted the group")) << caught.text;
}

TEST(ThreadGroup, MissingRankIsATimeoutThatEndsTheGroup) {
  auto groups = make_thread_groups(3);
  const Stopwatch watch;
  run_threads(2, [&](int r) {
    const Caught caught = catch_error(
        [&] { groups[static_cast<std::size_t>(r)]->all_gather("", r == 0 ? 0.1 : 20); });
    EXPECT_EQ(caught.kind, ErrorKind::timeout);
    EXPECT_TRUE(caught.says("rank 2")) << caught.text;
  });
  EXPECT_LT(watch.seconds(), 5);
  const Caught late = catch_error([&] { groups[2]->all_gather("", 20); });
  EXPECT_EQ(late.kind, ErrorKind::timeout) << late.text;
}

TEST(ThreadGroup, RankThatLeftIsNotWaitedFor) {
  auto groups = make_thread_groups(2);
  groups[1].reset();
  EXPECT_TRUE(groups[0]->has_left(1));
  const Stopwatch watch;
  const Caught caught = catch_error([&] { groups[0]->all_gather("", 20); });
  EXPECT_EQ(caught.kind, ErrorKind::peer);
  EXPECT_TRUE(caught.says("peer rank 1 has left the group")) << caught.text;
  EXPECT_LT(watch.seconds(), 5);
}

TEST(ThreadGroup, UnknownKindInTheAbortWordIsASystemError) {
  auto groups = make_thread_groups(2);
  groups[0]->abort({200, 0, 1});
  EXPECT_EQ(catch_error([&] { groups[1]->throw_if_aborted("x"); }).kind, ErrorKind::system);
}

}  // namespace
}  // namespace tilelace::comm::test
