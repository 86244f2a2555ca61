// SPDX-License-Identifier: Apache-2.0
// allocate_device over a fake driver: who gets what, and what is left when a call fails.
#include <algorithm>
#include <array>

#include "backend/cuda/link/join_devices.h"
#include "comm/cuda/device_memory.h"
#include "comm/cuda/peer_access.h"
#include "fake_driver_test.h"

namespace tilelace::comm::test {
namespace {

constexpr std::size_t kBytes = 100'000;

class AllocateDevice : public FakeDriverTest {};

std::shared_ptr<DeviceMemory> allocate(Group& group, std::size_t bytes = kBytes) {
  return allocate_device(group, group.rank() % fake::kDevices, bytes, kBound_s);
}

/// Every rank writes to every peer; every owner finds it.
void use(Group& group, const DeviceMemory& memory) {
  const auto ranks = static_cast<std::size_t>(group.ranks());
  for (std::size_t i = 0; i < kBytes; ++i)
    if (memory.local()[i] != std::byte{0}) FAIL() << "byte " << i << " is not zero";
  group.all_gather("", kBound_s);
  for (int p = 0; p < group.ranks(); ++p)
    for (std::size_t i = static_cast<std::size_t>(group.rank()); i < kBytes; i += ranks)
      memory.peer(p)[i] = static_cast<std::byte>(i % 251 + 1);
  group.all_gather("", kBound_s);
  for (std::size_t i = 0; i < kBytes; ++i)
    if (memory.local()[i] != static_cast<std::byte>(i % 251 + 1))
      FAIL() << "rank " << group.rank() << ": byte " << i << " is not what its writer wrote";
  group.all_gather("", kBound_s);
}

TEST_F(AllocateDevice, GivesEveryRankEveryRanksMemory) {
  for (const int ranks : {1, 2, 3, 6})
    run_both(ranks, [](Group& group) {
      const auto memory = allocate(group);
      EXPECT_EQ(memory->bytes(), kBytes);
      EXPECT_EQ(memory->stride(), 131072U);
      EXPECT_EQ(memory->rank(), group.rank());
      EXPECT_EQ(memory->ranks(), group.ranks());
      EXPECT_EQ(memory->device(), group.rank() % fake::kDevices);
      EXPECT_EQ(memory->local(),
                memory->base() + static_cast<std::size_t>(group.rank()) * memory->stride());
      use(group, *memory);
    });
}

TEST_F(AllocateDevice, ThreadsShareOneRangeOfAddresses) {
  auto groups = make_thread_groups(3);
  std::vector<std::byte*> bases(3);
  run_on_threads(
      3, [&](int r) { return std::move(groups[static_cast<std::size_t>(r)]); },
      [&](Group& group) {
        const auto memory = allocate(group);
        bases[static_cast<std::size_t>(group.rank())] = memory->base();
        group.all_gather("", kBound_s);
        if (group.rank() == 0) {
          EXPECT_EQ(fake::live(), (fake::Live{0, 1, 3}));
        }
        group.all_gather("", kBound_s);
      });
  EXPECT_EQ(bases[0], bases[1]);
  EXPECT_EQ(bases[0], bases[2]);
}

TEST_F(AllocateDevice, MemoryOfARankThatLetGoStaysForTheOthers) {
  run_both(3, [](Group& group) {
    auto memory = allocate(group);
    std::fill_n(memory->local(), kBytes, std::byte{7});
    group.all_gather("", kBound_s);
    if (group.rank() == 1) memory.reset();
    group.all_gather("", kBound_s);
    if (memory) {
      EXPECT_EQ(memory->peer(1)[kBytes - 1], std::byte{7});
      memory->peer(1)[static_cast<std::size_t>(group.rank())] = std::byte{9};
    }
  });
}

TEST_F(AllocateDevice, NoBytesAreAUsableAllocation) {
  run_both(2, [](Group& group) { EXPECT_GT(allocate(group, 0)->stride(), 0U); });
}

TEST_F(AllocateDevice, FailureOfOneRankIsTheSameErrorOnAllAndLeavesNothing) {
  constexpr std::array kCalls{"cuMemCreate",
                              "cuMemExportToShareableHandle",
                              "cuMemAddressReserve",
                              "cuMemImportFromShareableHandle",
                              "cuMemMap",
                              "cuMemSetAccess",
                              "cudaMemset"};
  for (const std::string call : kCalls)
    for (int who = 0; who < 3; ++who)
      run_both(3, [&](Group& group) {
        fake::fail_next(group.rank() == who ? call : "");
        std::shared_ptr<DeviceMemory> memory;
        const Caught caught = catch_error([&] { memory = allocate(group); });
        const auto happened = group.all_gather(fake::has_failed() ? "yes" : "", kBound_s);
        const bool any = happened[static_cast<std::size_t>(who)] == "yes";
        // Threads export and import nothing, and only one of them reserves.
        EXPECT_TRUE(any || group.one_process()) << call;
        EXPECT_EQ(caught.kind.has_value(), any) << call << ": " << caught.text;
        EXPECT_TRUE(!any || caught.kind == ErrorKind::system);
        for (const std::string& other : group.all_gather(caught.text, kBound_s))
          EXPECT_EQ(other, caught.text);
        const bool named = any && !(group.one_process() && call == "cuMemAddressReserve");
        EXPECT_TRUE(!named || caught.says("(on rank " + std::to_string(who) + ")")) << caught.text;
        memory.reset();
        group.all_gather("", kBound_s);
        if (group.rank() == 0) {
          EXPECT_EQ(fake::live(), fake::Live{}) << call;
        }
        group.all_gather("", kBound_s);
        fake::fail_next("");
        use(group, *allocate(group));
      });
}

TEST_F(AllocateDevice, SizesThatDifferAreAUsageErrorOnAll) {
  run_both(3, [](Group& group) {
    const Caught caught = catch_error([&] { allocate(group, group.rank() == 2 ? 5 : 6); });
    EXPECT_EQ(caught.kind, ErrorKind::usage);
    EXPECT_TRUE(caught.says("rank 2 passed 5 bytes, rank 0 passed 6")) << caught.text;
    use(group, *allocate(group));
  });
}

TEST_F(AllocateDevice, DeviceThatIsNotThereIsAUsageErrorOnAll) {
  run_both(2, [](Group& group) {
    const Caught caught =
        catch_error([&] { allocate_device(group, group.rank() == 1 ? 4 : 0, kBytes, kBound_s); });
    EXPECT_EQ(caught.kind, ErrorKind::usage);
    EXPECT_EQ(caught.text,
              "allocate_device: device: got 4 with 4 devices visible, expected 0 to 3 (on rank 1)");
    use(group, *allocate(group));
  });
}

TEST_F(AllocateDevice, MissingPeerAccessNamesBothRanks) {
  fake::machine.peer_access = false;
  run_both(2, [](Group& group) {
    const Caught caught = catch_error([&] { allocate(group); });
    EXPECT_EQ(caught.kind, ErrorKind::system);
    EXPECT_TRUE(caught.says("rank 0 (device 0) has no peer access to rank 1 (device 1)"))
        << caught.text;
    // On one device none is needed.
    EXPECT_NE(allocate_device(group, 3, kBytes, kBound_s), nullptr);
  });
}

TEST_F(AllocateDevice, RanksJoinByPeerMemory) {
  run_both(3, [](Group& group) {
    const auto links = cuda::join_devices(group, group.rank(), uuid_of(group.rank()), kBound_s);
    for (int r = 0; r < 3; ++r) {
      const LinkRow* const link = links.at(static_cast<std::size_t>(r));
      if (r == group.rank())
        EXPECT_EQ(link, nullptr);
      else
        EXPECT_EQ(link->kind, LinkKind::peer_memory);
    }
  });
}

TEST_F(AllocateDevice, RanksWhoseDevicesDoNotReachEachOtherDoNotJoin) {
  fake::machine.peer_access = false;
  run_both(2, [](Group& group) {
    const auto join = [&](int device) {
      return catch_error([&] { cuda::join_devices(group, device, uuid_of(device), kBound_s); });
    };
    const Caught apart = join(group.rank());
    EXPECT_EQ(apart.kind, ErrorKind::system);
    EXPECT_EQ(
        apart.text,
        "prepare: the GPUs of ranks 0 and 1 cannot reach each other's memory (no peer access), "
        "but kernels need it: choose GPUs with peer access (see `tilelace doctor`)");
    const Caught same = join(0);
    EXPECT_EQ(same.kind, ErrorKind::usage);
    EXPECT_TRUE(same.says("ranks 0 and 1 share device GPU-")) << same.text;
  });
}

TEST_F(AllocateDevice, TellsWhetherFabricHandlesWereGranted) {
  run_both(2, [](Group& group) {
    EXPECT_EQ(allocate(group)->facts().fabric_reason, "the device does not support fabric handles");
  });
  fake::machine.fabric_supported = true;
  run_both(2, [](Group& group) {
    const auto memory = allocate(group);
    EXPECT_FALSE(memory->facts().fabric);
    EXPECT_EQ(memory->facts().fabric_reason,
              "cuMemCreate: CUDA_ERROR_NOT_PERMITTED (as the fake driver says)");
  });
  fake::machine.fabric_granted = true;
  run_both(2, [](Group& group) { EXPECT_TRUE(allocate(group)->facts().fabric); });
}

TEST_F(AllocateDevice, SubgroupsAllocateSideBySide) {
  run_both(4, [](Group& group) {
    const bool even = group.rank() % 2 == 0;
    const auto part = group.subgroup(even ? std::vector{2, 0} : std::vector{3, 1}, kBound_s);
    const auto memory = allocate_device(*part, group.rank(), kBytes, kBound_s);
    EXPECT_EQ(memory->rank(), part->rank());
    use(*part, *memory);
  });
}

TEST_F(AllocateDevice, RankThatDoesNotComeIsATimeout) {
  run_both(2, [](Group& group) {
    if (group.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return;
    }
    const Caught caught = catch_error([&] { allocate_device(group, 0, kBytes, 0.1); });
    EXPECT_EQ(caught.kind, ErrorKind::timeout);
    EXPECT_TRUE(caught.says("allocate_device: rank 1 did not come")) << caught.text;
  });
}

}  // namespace
}  // namespace tilelace::comm::test
