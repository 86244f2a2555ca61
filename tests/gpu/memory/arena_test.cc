// SPDX-License-Identifier: Apache-2.0
// Pieces of a memory, on plain host memory: no GPU is needed.
#include "comm/cuda/arena.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tilelace/error.h"

namespace tilelace::comm {
namespace {

class PlainMemory final : public DeviceMemory {
 public:
  PlainMemory(std::byte* base, std::size_t bytes, std::size_t stride, int rank)
      : DeviceMemory(Layout{base, bytes, stride, rank, 2, 0}) {}
};

constexpr std::size_t kBytes = 64 * 1024;

class ArenaTest : public testing::Test {
 protected:
  [[nodiscard]] Arena make(int rank = 0, std::size_t bytes = kBytes) {
    return Arena(std::make_shared<PlainMemory>(memory_.data(), bytes, kBytes, rank));
  }
  template <class Work>
  static std::string error_of(const Work& work) {
    try {
      work();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return e.what();
    }
    return "none";
  }

 private:
  std::vector<std::byte> memory_{2 * kBytes};
};

TEST_F(ArenaTest, RegionsAreAlignedAndApart) {
  Arena arena = make(1);
  const Region flags = arena.take("flags", 4);
  const Region slot = arena.take("slot", 1000);
  const Region rest = arena.take("rest", 0);
  EXPECT_EQ(flags, (Region{0, 4}));
  EXPECT_EQ(slot, (Region{256, 1000}));
  EXPECT_EQ(rest, (Region{1280, 0}));
  EXPECT_EQ(arena.left(), kBytes - 1536);
  EXPECT_EQ(arena.at(slot, 0), arena.memory().base() + 256);
  EXPECT_EQ(arena.local(slot), arena.memory().base() + kBytes + 256);
}

TEST_F(ArenaTest, NoRoomIsAUsageErrorThatNamesTheRegion) {
  Arena arena = make();
  arena.take("slot", kBytes - 512);
  EXPECT_EQ(
      error_of([&] { arena.take("flags", 513); }),
      "arena: no room for flags of 513 bytes: 512 of 65536 are left, the largest piece has 512");
  arena.take("flags", 512);
  EXPECT_EQ(arena.left(), 0U);
  EXPECT_NE(error_of([&] { arena.take("more", 0); }), "none");
  EXPECT_NE(error_of([&] { arena.take("huge", ~std::size_t{0}); }), "none");
}

TEST_F(ArenaTest, WhatIsGivenBackJoinsItsNeighbours) {
  Arena arena = make();
  std::vector<Region> regions;
  for (int i = 0; i < 4; ++i) regions.push_back(arena.take("piece", kBytes / 4));
  arena.give_back(regions[1]);
  arena.give_back(regions[3]);
  EXPECT_EQ(arena.left(), kBytes / 2);
  EXPECT_EQ(arena.largest(), kBytes / 4);
  arena.give_back(regions[2]);
  EXPECT_EQ(arena.largest(), kBytes / 4 * 3);
  arena.give_back(regions[0]);
  EXPECT_EQ(arena.take("all", kBytes), (Region{0, kBytes}));
}

TEST_F(ArenaTest, GivingBackTwiceIsAUsageError) {
  Arena arena = make();
  const Region region = arena.take("slot", 256);
  arena.give_back(region);
  EXPECT_EQ(error_of([&] { arena.give_back(region); }),
            "arena: got back a region at 0, expected one that is taken");
}

TEST_F(ArenaTest, LastBytesOfAnUnevenMemoryAreUsable) {
  Arena arena = make(0, 1000);
  EXPECT_EQ(arena.take("all", 1000), (Region{0, 1000}));
}

TEST_F(ArenaTest, RanksInStepGetTheSameOffsetsAndNothingOverlaps) {
  Arena a = make(0);
  Arena b = make(1);
  std::mt19937 random(7);
  std::vector<Region> taken;
  for (int i = 0; i < 5000; ++i) {
    if (!taken.empty() && random() % 2 == 0) {
      const std::size_t which = random() % taken.size();
      a.give_back(taken[which]);
      b.give_back(taken[which]);
      taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(which));
      continue;
    }
    const std::size_t bytes = random() % 3000;
    if (bytes + 256 > a.largest()) continue;
    const Region region = a.take("a", bytes);
    ASSERT_EQ(region, b.take("b", bytes));
    for (const Region& other : taken)
      ASSERT_TRUE(region.offset + region.bytes <= other.offset ||
                  other.offset + other.bytes <= region.offset);
    taken.push_back(region);
  }
  for (const Region& region : taken) a.give_back(region);
  EXPECT_EQ(a.largest(), kBytes);
}

}  // namespace
}  // namespace tilelace::comm
