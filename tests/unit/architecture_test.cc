// SPDX-License-Identifier: Apache-2.0
#include "core/architecture.h"

#include <gtest/gtest.h>

#include <vector>

namespace tilelace {
namespace {

TEST(Architecture, HasKernelsForItsOwnCapabilityAlone) {
  for (const Architecture& a : kArchitectures) {
    EXPECT_TRUE(has_kernels(a.major, a.minor)) << a.name;
    EXPECT_FALSE(has_kernels(a.major, a.minor + 9)) << a.name;
  }
  EXPECT_FALSE(has_kernels(8, 0));
}

TEST(Architecture, IsFoundByItsCapabilityAndByItsName) {
  for (int row = 0; row < static_cast<int>(kArchitectures.size()); ++row) {
    const Architecture& a = kArchitectures.at(static_cast<std::size_t>(row));
    EXPECT_EQ(architecture_of(a.major, a.minor), row) << a.name;
    EXPECT_EQ(architecture_named(a.name), row);
    EXPECT_EQ(name_of_architecture(row), a.name);
  }
  EXPECT_FALSE(architecture_of(8, 0));
  EXPECT_FALSE(architecture_named("sm_80"));
  EXPECT_EQ(name_of_architecture(-1), "an unknown architecture");
}

TEST(Architecture, RowsOfALayerAreItsInItsOrder) {
  struct Row {
    std::string_view architecture;
  };
  const std::vector<Row> none;
  std::vector<Row> rows;
  for (const Architecture& a : kArchitectures) rows.push_back({a.name});
  EXPECT_TRUE(are_architectures(rows));
  EXPECT_FALSE(are_architectures(none));
  rows.back().architecture = "sm_80";
  EXPECT_FALSE(are_architectures(rows));
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
