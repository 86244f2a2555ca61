// SPDX-License-Identifier: Apache-2.0
// What allocate_device is built of, without a GPU: descriptors passed around, rounds in agreement.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "comm/cuda/agreement.h"
#include "rank_threads.h"

namespace tilelace::comm::test {
namespace {

/// A file that holds a number.
UniqueFd make_file(int number) {
  UniqueFd fd(memfd_create("number", MFD_CLOEXEC));
  EXPECT_EQ(pwrite(fd.get(), &number, sizeof number, 0), static_cast<ssize_t>(sizeof number));
  return fd;
}

int number_in(const UniqueFd& fd) {
  int number = -1;
  EXPECT_EQ(pread(fd.get(), &number, sizeof number, 0), static_cast<ssize_t>(sizeof number));
  return number;
}

TEST(ExchangeDescriptor, GivesEveryRankTheFilesOfItsPeers) {
  const std::size_t before = open_descriptors();
  for (const int ranks : {1, 2, 5})
    run_both(ranks, [](Group& group) {
      for (int round = 0; round < 3; ++round) {
        const UniqueFd own = make_file(100 * round + group.rank());
        const auto all = group.exchange_descriptor(own.get(), kBound_s);
        ASSERT_EQ(static_cast<int>(all.size()), group.ranks());
        for (int r = 0; r < group.ranks(); ++r) {
          const UniqueFd& fd = all[static_cast<std::size_t>(r)];
          ASSERT_EQ(static_cast<bool>(fd), r != group.rank());
          if (fd) {
            EXPECT_EQ(number_in(fd), 100 * round + r);
            EXPECT_NE(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
          }
        }
        EXPECT_EQ(number_in(own), 100 * round + group.rank());
      }
    });
  EXPECT_EQ(open_descriptors(), before);
}

TEST(ExchangeDescriptor, RefusesNoDescriptorBeforeAnyoneHearsOfIt) {
  run_both(2, [](Group& group) {
    EXPECT_EQ(catch_error([&] { group.exchange_descriptor(-1, kBound_s); }).kind, ErrorKind::usage);
    group.all_gather("", kBound_s);
  });
}

TEST(ExchangeDescriptor, AnotherCallElsewhereIsAUsageError) {
  run_both(2, [](Group& group) {
    const UniqueFd own = make_file(1);
    const Caught caught = catch_error([&] {
      if (group.rank() == 0) {
        group.exchange_descriptor(own.get(), kBound_s);
      } else {
        group.all_gather("", kBound_s);
      }
    });
    EXPECT_EQ(caught.kind, ErrorKind::usage);
    EXPECT_NE(caught.text.find("exchange_descriptor"), std::string::npos) << caught.text;
  });
}

TEST(MakeTogether, GivesAllThreadsTheSameObjectOrTheSameError) {
  auto groups = make_thread_groups(3);
  std::vector<std::shared_ptr<void>> made(3);
  run_on_threads(
      3, [&](int r) { return std::move(groups[static_cast<std::size_t>(r)]); },
      [&](Group& group) {
        EXPECT_TRUE(group.one_process());
        const auto rank = static_cast<std::size_t>(group.rank());
        made[rank] = group.make_together([] { return std::make_shared<int>(7); }, kBound_s);
        const Group::Make fails = []() -> std::shared_ptr<void> {
          throw Error(ErrorKind::system, "make: got nothing, expected something");
        };
        const Caught caught = catch_error([&] { group.make_together(fails, kBound_s); });
        EXPECT_EQ(caught.kind, ErrorKind::system);
        EXPECT_EQ(caught.text, "make: got nothing, expected something");
        group.all_gather("", kBound_s);
      });
  EXPECT_EQ(made[0], made[1]);
  EXPECT_EQ(made[0], made[2]);
  EXPECT_EQ(*static_cast<int*>(made[0].get()), 7);
}

TEST(Agreement, GivesWhatEachRankReturned) {
  run_both(3, [](Group& group) {
    const Agreement agreement(group, "op", kBound_s);
    const auto all = agreement.round([&] { return std::to_string(group.rank()); });
    EXPECT_EQ(all, (std::vector<std::string>{"0", "1", "2"}));
  });
}

TEST(Agreement, ErrorOfTheLowestRankReachesAllAndTheNextRoundWorks) {
  run_both(4, [](Group& group) {
    const Agreement agreement(group, "op", kBound_s);
    const Caught caught = catch_error([&] {
      agreement.round([&]() -> std::string {
        if (group.rank() == 1) throw Error(ErrorKind::system, "op: memory, got none");
        if (group.rank() == 3) throw std::runtime_error("other");
        return "";
      });
    });
    EXPECT_EQ(caught.kind, ErrorKind::system);
    EXPECT_EQ(caught.text, "op: memory, got none (on rank 1)");
    EXPECT_EQ(agreement.round([] { return std::string("x"); }).size(), 4U);
  });
}

TEST(Agreement, RankThatDoesNotComeIsATimeoutInItsOwnWords) {
  run_both(2, [](Group& group) {
    if (group.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return;
    }
    const Agreement agreement(group, "allocate_device", 0.1);
    const Caught caught = catch_error([&] { agreement.round([] { return std::string(); }); });
    EXPECT_EQ(caught.kind, ErrorKind::timeout);
    EXPECT_TRUE(caught.text.starts_with("allocate_device: rank 1 did not come")) << caught.text;
  });
}

}  // namespace
}  // namespace tilelace::comm::test
