// SPDX-License-Identifier: Apache-2.0
#include "core/architecture.h"

#include <gtest/gtest.h>

namespace tilelace {
namespace {

TEST(Architecture, HasKernelsForItsOwnCapabilityAlone) {
  for (const Architecture& a : kArchitectures) {
    EXPECT_TRUE(has_kernels(a.major, a.minor)) << a.name;
    EXPECT_FALSE(has_kernels(a.major, a.minor + 9)) << a.name;
  }
  EXPECT_FALSE(has_kernels(8, 0));
}

TEST(Architecture, IsCalledByWhatRunsIt) { EXPECT_EQ(devices_with_kernels(), "sm_90"); }

TEST(Architecture, NamesOfItsDevicesAreItsCapability) {
  for (const Architecture& a : kArchitectures) {
    const std::string want = "sm_" + std::to_string(a.major) + std::to_string(a.minor);
    EXPECT_EQ(a.devices, want);
    EXPECT_TRUE(a.name.starts_with(want)) << a.name;
  }
}

}  // namespace
}  // namespace tilelace
