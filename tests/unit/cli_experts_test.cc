// SPDX-License-Identifier: Apache-2.0
// The built command on mixtures of experts.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli_fixture.h"

namespace tilelace::cli {
namespace {

struct BadExperts {
  const char* name;
  const char* line;
  const char* text;  ///< a part of standard error
};

class CliBadExperts : public testing::TestWithParam<BadExperts> {};

TEST_P(CliBadExperts, ExitsTwoWithAText) {
  const Finished f = run_command(GetParam().line);
  EXPECT_EQ(f.code, 2) << f.err;
  EXPECT_NE(f.err.find(GetParam().text), std::string::npos) << f.err;
}

const BadExperts kBadExperts[] = {
    {"SimulatedUnknownExperts", "simulate moe_xx --machine h200x2 --m 8 --model mixtral-8x7b",
     "tilelace: simulate: op: got \"moe_xx\", expected moe_rs or moe_ar\n"},
    {"SimulatedExpertsAmongOthers", "simulate moe_rs,ag_gemm --machine h200x2 --m 8",
     "moe_rs,ag_gemm has mixtures of experts and other ops: ask for them in two calls\n"},
    {"SimulatedRouting",
     "simulate moe_rs --machine h200x2 --m 8 --model mixtral-8x7b --routing cold",
     "--routing: got \"cold\", expected uniform, zipf or hot\n"},
    {"SimulatedExpertsOfNoSize", "simulate moe_ar --machine h200x2 --m 8 --n 64",
     "simulate: moe_ar needs --model, or --n (inner width)"},
    {"SimulatedExpertsWithoutKernels",
     "simulate moe_rs --machine a100-nvlink-x8 --tp 2 --m 8 --model mixtral-8x7b",
     "--machine: got a100-nvlink-x8 (NVIDIA A100"},
    {"SimulatedExpertsOverNodes",
     "simulate moe_rs --machine h200x2 --tp 2 --m 8 --model mixtral-8x7b --plan chunk=8",
     "simulate: --plan is for other ops, not for moe_rs\n"},
    {"SimulatedExpertsOfAProduct", "simulate ag_gemm --machine h200x2 --m 8 --top-k 2",
     "simulate: --top-k is for mixtures of experts alone\n"},
};

INSTANTIATE_TEST_SUITE_P(All, CliBadExperts, testing::ValuesIn(kBadExperts),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(CliExperts, SimulatedLayersTakeTheSumOfTheirPasses) {
  const Finished f = run_command(
      "simulate moe_rs,moe_ar --machine h200x2 --model olmoe-1b-7b --tp 2 --m 8,512 --routing "
      "uniform,hot --json -");
  EXPECT_EQ(f.code, 0) << f.err;
  std::istringstream lines(f.out);
  int records = 0;
  for (std::string line; std::getline(lines, line); ++records) {
    const auto record = nlohmann::json::parse(line);
    EXPECT_EQ(record["schema"], "tilelace.moe/1");
    double sum = 0;
    for (const auto& us : record["passes_us"]) sum += us.get<double>();
    EXPECT_NEAR(record["us"], sum, 1e-9 * sum) << line;
    EXPECT_FALSE(record["known_error"]["text"].empty());
  }
  EXPECT_EQ(records, 8);
}

}  // namespace
}  // namespace tilelace::cli
