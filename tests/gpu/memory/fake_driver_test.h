// SPDX-License-Identifier: Apache-2.0
// What tests over the fake driver begin and end with.
#pragma once
#include "fake_driver.h"
#include "rank_threads.h"

namespace tilelace::comm::test {

/// Each begins with a machine of which nothing is asked, and leaves nothing behind.
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
