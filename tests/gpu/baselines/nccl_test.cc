// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/nccl.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "tilelace/error.h"

namespace tilelace::cuda {
namespace {

std::string refusal(comm::Group& group) {
  try {
    const NcclGroup nccl(group, 0, {5, false});
    return "none";
  } catch (const Error& e) {
    return fmt::format("{}: {}", name_of(e.kind()), e.what());
  }
}

TEST(Nccl, RefusesOnEveryRankUnlessMulticastIsOff) {
  for (const char* value : {"1", "2"}) {
    setenv("NCCL_NVLS_ENABLE", value, 1);
    auto groups = comm::make_thread_groups(2);
    std::string other;
    std::thread peer([&] { other = refusal(*groups[1]); });
    const std::string mine = refusal(*groups[0]);
    peer.join();
    const std::string want = fmt::format(
        "system: nccl: rank 0: NCCL_NVLS_ENABLE, got \"{}\", expected 0 (multicast is never used)",
        value);
    EXPECT_EQ(mine, want);
    EXPECT_EQ(other, want);
  }
}

}  // namespace
}  // namespace tilelace::cuda
