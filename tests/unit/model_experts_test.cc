// SPDX-License-Identifier: Apache-2.0
// The experts of models, from their configs.
#include <gtest/gtest.h>

#include "gpu/moe/models.h"
#include "model/experts.h"
#include "model_fixture.h"

namespace tilelace::model {
namespace {

const std::string kSizes = R"("hidden_size":32,"num_hidden_layers":2,"num_experts_per_tok":2,)"
                           R"("intermediate_size":48)";

std::string refusal_of(const std::string& json) {
  const TempFolder dir;
  try {
    read_experts(dir.write("c.json", json));
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
  return "";
}

TEST(ModelExperts, KnownOnesHaveTheirSizes) {
  const auto known = known_mixtures();
  EXPECT_EQ(known,
            (std::vector<std::string>{"deepseek-v3", "gpt-oss-120b", "gpt-oss-20b", "mixtral-8x7b",
                                      "olmoe-1b-7b", "qwen3-235b-a22b", "qwen3-30b-a3b"}));
  const auto of = [](const char* name) { return read_experts(find_mixture(name)); };
  using A = ExpertActivation;
  constexpr DType type = DType::bf16;
  EXPECT_EQ(of("mixtral-8x7b"), (ExpertsConfig{"mixtral-8x7b", "mixtral", 32, 4096, 14336, 8, 2, 0,
                                               A::swiglu, false, type}));
  EXPECT_EQ(of("qwen3-235b-a22b"), (ExpertsConfig{"qwen3-235b-a22b", "qwen3_moe", 94, 4096, 1536,
                                                  128, 8, 0, A::swiglu, false, type}));
  EXPECT_EQ(of("olmoe-1b-7b"), (ExpertsConfig{"olmoe-1b-7b", "olmoe", 16, 2048, 1024, 64, 8, 0,
                                              A::swiglu, false, type}));
  EXPECT_EQ(of("gpt-oss-120b"), (ExpertsConfig{"gpt-oss-120b", "gpt_oss", 36, 2880, 2880, 128, 4, 0,
                                               A::swiglu_clamped, true, type}));
  EXPECT_EQ(of("deepseek-v3"), (ExpertsConfig{"deepseek-v3", "deepseek_v3", 61, 7168, 2048, 256, 8,
                                              2048, A::swiglu, false, type}));
}

TEST(ModelExperts, ThoseOfGpuProgramsHaveTheSizesOfTheirConfigs) {
  for (const gpu_test::MoeModel& m : gpu_test::kMoeModels) {
    const std::string name = m.name;
    const std::size_t slash = name.find('/');
    const ExpertsConfig c = read_experts(find_mixture(name.substr(0, slash)));
    const int experts = slash == std::string::npos ? c.experts : std::stoi(name.substr(slash + 1));
    EXPECT_EQ((std::vector{m.hidden, 2 * m.inner, m.experts, m.top_k}),
              (std::vector<std::int64_t>{c.hidden, c.inner, experts, c.top_k}))
        << name;
  }
}

TEST(ModelExperts, WrongConfigsAreRefusedByField) {
  const std::string mixtral = R"("model_type":"mixtral",)";
  EXPECT_EQ(refusal_of("{" + mixtral + R"("num_local_experts":4,)" + kSizes + "}"), "");
  const auto has = [](const std::string& json, const char* text) {
    const std::string got = refusal_of(json);
    EXPECT_NE(got.find(text), std::string::npos) << got;
  };
  has(R"({"model_type":"llama",)" + kSizes + "}",
      "model_type, got \"llama\", expected a mixture of experts: one of mixtral, qwen3_moe, olmoe, "
      "gpt_oss, deepseek_v3");
  has("{" + kSizes + "}", "model_type");
  has("{" + mixtral + kSizes + "}", "num_local_experts");
  has("{" + mixtral + R"("num_local_experts":1,)" + kSizes + "}",
      "num_experts_per_tok, got 2, expected at most num_local_experts = 1");
  has("{" + mixtral + R"("num_local_experts":4,"hidden_act":"relu",)" + kSizes + "}",
      "hidden_act, got \"relu\"");
  has(R"({"model_type":"deepseek_v3","n_routed_experts":4,"moe_intermediate_size":16777216,)"
      R"("n_shared_experts":2,)" +
          kSizes + "}",
      "n_shared_experts, got 2, expected at most 1 (of 16777216 columns each)");
}

TEST(ModelExperts, WhatIsNoneIsNamed) {
  try {
    find_mixture("./nowhere");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("expected one of deepseek-v3, gpt-oss-120b"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace tilelace::model
