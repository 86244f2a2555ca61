// SPDX-License-Identifier: Apache-2.0
// The fixture of tests with the fake driver.
#pragma once
#include "fake_driver.h"
#include "rank_threads.h"

namespace tilelace::comm::test {

/// Each test begins with default settings, and must leave no object behind.
class FakeDriverTest : public testing::Test {
 protected:
  void SetUp() override {
    fake::machine = {};
    descriptors_ = open_descriptors();
  }
  void TearDown() override {
    EXPECT_EQ(fake::live(), fake::Live{});
    EXPECT_EQ(open_descriptors(), descriptors_);
  }

 private:
  std::size_t descriptors_ = 0;
};

}  // namespace tilelace::comm::test
