// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/vendor/nccl.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "tilelace/error.h"

namespace tilelace::cuda {
namespace {

std::string refusal(comm::Group& group, int most_ctas) {
  try {
    const NcclGroup nccl(group, 0, {5, false, most_ctas});
    return "none";
  } catch (const Error& e) {
    return fmt::format("{}: {}", name_of(e.kind()), e.what());
  }
}

void expect_refusal(int most_ctas, const std::string& want) {
  auto groups = comm::make_thread_groups(2);
  std::string other;
  std::thread peer([&] { other = refusal(*groups[1], most_ctas); });
  const std::string mine = refusal(*groups[0], most_ctas);
  peer.join();
  EXPECT_EQ(mine, want);
  EXPECT_EQ(other, want);
}

TEST(Nccl, RefusesOnEveryRankUnlessMulticastIsOff) {
  for (const char* value : {"1", "2"}) {
    setenv("NCCL_NVLS_ENABLE", value, 1);
    expect_refusal(0, fmt::format("system: nccl: rank 0: NCCL_NVLS_ENABLE: got \"{}\", expected 0: "
                                  "multicast is not used here",
                                  value));
  }
}

/// Its kernels would take places that others wait for it in.
TEST(Nccl, RefusesAnEnvironmentThatGivesItMorePlacesThanItMayHave) {
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  for (const char* name : {"NCCL_CGA_CLUSTER_SIZE", "NCCL_MIN_CTAS", "NCCL_MIN_P2P_NCHANNELS"}) {
    setenv(name, "8", 1);
    expect_refusal(4, fmt::format("system: nccl: rank 0: {}: got 8, expected none: unset it; NCCL "
                                  "may take at most 4 CTAs here, no clusters",
                                  name));
    unsetenv(name);
  }
}

}  // namespace
}  // namespace tilelace::cuda
