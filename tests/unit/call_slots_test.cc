// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/rank/call_slots.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tilelace::cuda {
namespace {

/// A device's count of calls, under the calls that CallSlots has placed.
struct Device {
  unsigned done = 0;
  int met = 0;     ///< aligns that made a call
  int wrong = 0;   ///< calls in the slot of another number
  int aligns = 0;  ///< that ran

  void run(const CallSlots::Place& place) {
    if (place.align) {
      ++aligns;
      if (done % 2 != *place.align) ++done, ++met;
    }
    ++done;
    if (done % 2 != place.slot) ++wrong;
  }
  void run(const std::vector<CallSlots::Place>& graph) {
    for (const auto& place : graph) run(place);
  }
};

std::vector<CallSlots::Place> capture(CallSlots& slots, unsigned long long id, int calls) {
  std::vector<CallSlots::Place> graph;
  for (int i = 0; i < calls; ++i) graph.push_back(slots.next(id));
  return graph;
}

TEST(CallSlots, AlternateWithoutAlignsWhereNothingIsCaptured) {
  CallSlots slots;
  Device device;
  for (int i = 0; i < 5; ++i) device.run(slots.next(0));
  EXPECT_EQ(device.wrong, 0);
  EXPECT_EQ(device.aligns, 0);
  EXPECT_FALSE(slots.graphs());
}

TEST(CallSlots, FitWhateverWasReplayedBetweenEagerCalls) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 2000; ++trial) {
    CallSlots slots;
    Device device;
    std::vector<std::vector<CallSlots::Place>> graphs;
    for (int step = 0; step < 40; ++step) {
      const auto way = random() % 8;
      if (way == 0)
        graphs.push_back(capture(slots, 100 + graphs.size(), static_cast<int>(1 + random() % 4)));
      else if (way < 4 && !graphs.empty())
        device.run(graphs[random() % graphs.size()]);
      else
        device.run(slots.next(0));
    }
    ASSERT_EQ(device.wrong, 0) << trial;
  }
}

TEST(CallSlots, OfEvenGraphsAloneNeedNoAlignBeforeCallsOnTheEvenSide) {
  CallSlots slots;
  Device device;
  const auto graph = capture(slots, 7, 4);
  for (int round = 0; round < 3; ++round) {
    device.run(graph);
    const auto first = slots.next(0), second = slots.next(0);
    EXPECT_FALSE(first.align);
    EXPECT_EQ(second.align, 1U);
    device.run(first);
    device.run(second);
  }
  EXPECT_EQ(device.wrong, 0);
  EXPECT_EQ(device.met, 0);
}

TEST(CallSlots, EagerCallsWithoutAReplayBetweenThemDoNotMeet) {
  CallSlots slots;
  Device device;
  const auto graph = capture(slots, 7, 1);
  device.run(graph);
  device.run(slots.next(0));
  const int met = device.met;
  for (int i = 0; i < 9; ++i) device.run(slots.next(0));
  EXPECT_EQ(device.met, met);
  EXPECT_EQ(device.wrong, 0);
}

TEST(CallSlots, ACaptureInterruptedByAnotherGoesOnWithAnAlign) {
  CallSlots slots;
  std::vector<CallSlots::Place> one = capture(slots, 1, 1), two = capture(slots, 2, 2);
  for (const auto& place : capture(slots, 1, 3)) one.push_back(place);
  Device device;
  for (int i = 0; i < 3; ++i) {
    device.run(one);
    device.run(two);
    device.run(slots.next(0));
  }
  EXPECT_EQ(device.wrong, 0);
}

TEST(CallSlots, AnAbandonedCaptureLeavesEagerCallsRight) {
  CallSlots slots;
  Device device;
  device.run(slots.next(0));
  capture(slots, 9, 3);
  for (int i = 0; i < 4; ++i) device.run(slots.next(0));
  EXPECT_EQ(device.wrong, 0);
  EXPECT_EQ(device.met, 0);
}

}  // namespace
}  // namespace tilelace::cuda
