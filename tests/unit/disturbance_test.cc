// SPDX-License-Identifier: Apache-2.0
// When times on a GPU are not believed.
#include "plan/tuning/disturbance.h"

#include <gtest/gtest.h>

namespace tilelace::plan {
namespace {

TEST(Disturbance, AQuietGpuIsBelieved) {
  EXPECT_EQ(disturbance_of(1, 1, 0), "");
  EXPECT_EQ(disturbance_of(0, 1, 0), "") << "a container may hide even one's own";
  EXPECT_EQ(disturbance_of(-1, 1, 0), "") << "without NVML nothing is known";
}

TEST(Disturbance, OthersOnTheGpuAreCounted) {
  EXPECT_EQ(disturbance_of(2, 1, 0), "1 other process on its GPU");
  EXPECT_EQ(disturbance_of(4, 1, 0), "3 other processes on its GPU");
}

TEST(Disturbance, HeatAndFaultsAreNamed) {
  EXPECT_NE(disturbance_of(1, 1, 0x40).find("0x40"), std::string::npos);
  EXPECT_NE(disturbance_of(-1, 1, 0x8).find("heat or a fault"), std::string::npos);
}

TEST(Disturbance, TheSameCallMayStrayByAFifth) {
  EXPECT_EQ(stray_of(100, 119), "");
  EXPECT_EQ(stray_of(119, 100), "");
  EXPECT_EQ(stray_of(0, 100), "") << "not timed";
  EXPECT_NE(stray_of(100, 125).find("took 100.0 us and then 125.0 us"), std::string::npos);
  EXPECT_NE(stray_of(250, 100).find("more than 20 % apart"), std::string::npos);
}

}  // namespace
}  // namespace tilelace::plan
