// SPDX-License-Identifier: Apache-2.0
// Memory that is mapped for multicast, over a fake driver: who makes what in which order, and what
// is left when a call fails or nobody may. No true driver is asked.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "comm/cuda/device_memory.h"
#include "fake_driver_test.h"

namespace tilelace::comm::test {
namespace {

constexpr std::size_t kBytes = 100'000;

class MulticastMemory : public FakeDriverTest {
 protected:
  void SetUp() override {
    FakeDriverTest::SetUp();
    setenv("TILELACE_MULTICAST", "1", 1);
    fake::multicast_events();
  }
  void TearDown() override {
    unsetenv("TILELACE_MULTICAST");
    FakeDriverTest::TearDown();
  }
};

std::shared_ptr<DeviceMemory> allocate(Group& group, bool multicast = true) {
  return allocate_device(group, group.rank() % fake::kDevices, kBytes, kBound_s, multicast);
}

/// The error is the same on every rank.
Caught refused(Group& group, const std::function<void()>& work) {
  const Caught caught = catch_error(work);
  for (const std::string& other : group.all_gather(caught.text, kBound_s))
    EXPECT_EQ(other, caught.text);
  EXPECT_TRUE(caught.kind.has_value());
  return caught;
}

TEST_F(MulticastMemory, IsOfEveryRankUnderOneMoreAddress) {
  for (const int ranks : {1, 2, 4})
    run_both(ranks, [&](Group& group) {
      const auto memory = allocate(group);
      EXPECT_NE(memory->multicast(), nullptr);
      EXPECT_EQ(memory->stride(), 256U * 1024);  // the object's granularity
      group.all_gather("", kBound_s);
      if (group.rank() == 0) {
        EXPECT_EQ(fake::live().bound, ranks);
      }
      memory->multicast()[memory->stride() - 1] = std::byte{1};  // open to the device
      group.all_gather("", kBound_s);
    });
}

TEST_F(MulticastMemory, IsMadeAndLetGoInOrder) {
  run_both(2, [](Group& group) {
    if (group.rank() == 0) fake::multicast_events();  // of ranks before
    group.all_gather("", kBound_s);
    auto memory = allocate(group);
    group.all_gather("", kBound_s);
    if (group.rank() == 0) {
      const auto made = fake::multicast_events();
      // Handles that were imported and released again aside.
      std::vector<std::string> order;
      std::copy_if(made.begin(), made.end(), std::back_inserter(order),
                   [](const std::string& e) { return e != "release"; });
      ASSERT_EQ(order.size(), 7U);
      EXPECT_EQ(order[0], "create 2");
      EXPECT_EQ(order[1], "add");
      EXPECT_EQ(order[2], "add");
      EXPECT_EQ(std::count(order.begin(), order.end(), "bind"), 2);
      EXPECT_EQ(std::count(order.begin(), order.end(), "map"), 2);
    }
    group.all_gather("", kBound_s);
    if (group.rank() == 0) memory.reset();
    group.all_gather("", kBound_s);
    if (group.rank() == 0) {
      auto gone = fake::multicast_events();
      // Threads share the object: the last of them releases it.
      if (!group.one_process()) {
        ASSERT_EQ(gone.size(), 3U);
        EXPECT_EQ(gone.back(), "release");
        gone.pop_back();
      }
      EXPECT_EQ(gone, (std::vector<std::string>{"unmap", "unbind"}));
    }
    group.all_gather("", kBound_s);
  });
}

TEST_F(MulticastMemory, IsNotTouchedWhereNobodyAsks) {
  run_both(2, [](Group& group) { EXPECT_EQ(allocate(group, false)->multicast(), nullptr); });
  EXPECT_TRUE(fake::multicast_events().empty());
}

TEST_F(MulticastMemory, TakesTheEnvironmentToo) {
  for (const char* value : {"", "0"}) {
    setenv("TILELACE_MULTICAST", value, 1);
    run_both(2, [](Group& group) {
      const Caught caught = refused(group, [&] { allocate(group); });
      EXPECT_EQ(caught.kind, ErrorKind::usage);
      EXPECT_TRUE(caught.says("multicast needs TILELACE_MULTICAST=1 in the environment, got"))
          << caught.text;
      EXPECT_NE(allocate(group, false), nullptr);  // the group goes on
    });
  }
  EXPECT_TRUE(fake::multicast_events().empty());
}

TEST_F(MulticastMemory, TakesADeviceThatHasIt) {
  fake::machine.multicast_supported = false;
  run_both(2, [](Group& group) {
    const Caught caught = refused(group, [&] { allocate(group); });
    EXPECT_EQ(caught.kind, ErrorKind::usage);
    EXPECT_TRUE(caught.says("CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED is 0")) << caught.text;
  });
  EXPECT_TRUE(fake::multicast_events().empty());
}

TEST_F(MulticastMemory, TakesADeviceForEveryRank) {
  run_both(5, [](Group& group) {
    const Caught caught = refused(group, [&] { allocate(group); });
    EXPECT_TRUE(caught.says("needs a device for every rank, but ranks 0 and 4 share one"))
        << caught.text;
  });
  EXPECT_TRUE(fake::multicast_events().empty());
}

TEST_F(MulticastMemory, OptionsThatDifferAreAUsageErrorOnAll) {
  run_both(3, [](Group& group) {
    const Caught caught = refused(group, [&] { allocate(group, group.rank() == 1); });
    EXPECT_EQ(caught.kind, ErrorKind::usage);
    EXPECT_TRUE(caught.says("rank 1 passed multicast 1, rank 0 passed 0")) << caught.text;
  });
  EXPECT_TRUE(fake::multicast_events().empty());
}

TEST_F(MulticastMemory, FailureOfOneRankIsTheSameErrorOnAllAndLeavesNothing) {
  constexpr std::array kCalls{"cuMulticastGetGranularity", "cuMulticastCreate",
                              "cuMulticastAddDevice", "cuMulticastBindMem"};
  for (const std::string call : kCalls)
    for (int who = 0; who < 3; ++who)
      run_both(3, [&](Group& group) {
        fake::fail_next(group.rank() == who ? call : "");
        std::shared_ptr<DeviceMemory> memory;
        const Caught caught = catch_error([&] { memory = allocate(group); });
        const auto happened = group.all_gather(fake::has_failed() ? "yes" : "", kBound_s);
        // One rank alone makes the object.
        const bool any = happened[static_cast<std::size_t>(who)] == "yes";
        EXPECT_TRUE(any || call == "cuMulticastCreate") << call;
        EXPECT_EQ(caught.kind.has_value(), any) << call << ": " << caught.text;
        EXPECT_TRUE(!any || caught.kind == ErrorKind::system);
        EXPECT_TRUE(!any ||
                    caught.says("multicast needs " + call + ", which failed: CUDA_ERROR_NOT_PERM"))
            << caught.text;
        for (const std::string& other : group.all_gather(caught.text, kBound_s))
          EXPECT_EQ(other, caught.text);
        memory.reset();
        group.all_gather("", kBound_s);
        if (group.rank() == 0) {
          EXPECT_EQ(fake::live(), fake::Live{}) << call;
        }
        group.all_gather("", kBound_s);
        fake::fail_next("");
        EXPECT_NE(allocate(group)->multicast(), nullptr);
      });
}

}  // namespace
}  // namespace tilelace::comm::test
