// SPDX-License-Identifier: Apache-2.0
// The built command on mixtures of experts.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli_fixture.h"
#include "plan/base/expert_product.h"
#include "plan/sm90_grouped.h"
#include "plan/tuning/tuning_draft.h"

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
    {"SimulatedExpertsOfManyTokens",
     "simulate moe_rs --machine h200x2 --m 40000000 --model mixtral-8x7b",
     "expected at most 67108864 choices in all\n"},
    {"PlannedManyExperts",
     "plan moe_rs --m 8 --n 64 --k 64 --experts 1025 --top-k 2 --backend cuda",
     "plan: experts: got 1025, expected at most 1024 on GPUs\n"},
    {"PlannedUnknownExperts", "plan ag_moe,moe_xx --m 8 --model mixtral-8x7b",
     "tilelace: plan: op: got \"moe_xx\", expected moe_rs or moe_ar or ag_moe\n"},
    {"PlannedRouting", "plan moe_rs --m 8 --model mixtral-8x7b --routing hot",
     "plan: there is no option --routing"},
    {"PlannedExpertsWithAPlan", "plan moe_rs --m 8 --model mixtral-8x7b --plan chunk=8",
     "plan: --plan is for other ops, not for moe_rs\n"},
    {"PlannedExpertsOfNoM", "plan moe_rs --model mixtral-8x7b", "plan: moe_rs needs --m\n"},
    {"PlannedExpertsOnCpusWithATable", "plan moe_rs --m 8 --model mixtral-8x7b --tuning x.json",
     "--tuning: GPU ranks only, add --backend cuda\n"},
    {"PlannedExpertsByNoTable",
     "plan moe_rs --m 8 --model mixtral-8x7b --backend cuda --tuning /nowhere/x.json",
     "/nowhere/x.json"},
    {"TunedCandidatesOfExperts", "tune --model mixtral-8x7b --candidates 2",
     "tune: --candidates is for other ops, not for moe_rs\n"},
    {"TunedExpertsAmongOthers", "tune moe_rs,gemm_rs --model mixtral-8x7b",
     "moe_rs,gemm_rs has mixtures of experts and other ops: ask for them in two calls\n"},
    {"TunedExpertsInFp32", "tune --model mixtral-8x7b --dtype fp32", "tune: --dtype: got fp32"},
    {"TunedProductsWithExperts", "tune gemm_rs --model minilm-l6 --experts 8",
     "tune: --experts is for mixtures of experts alone\n"},
    {"RunOfNoExperts", "run moe_rs --model minilm-l6 --m 4", "--model: got \"minilm-l6\""},
    {"RunOfExpertsWithWeights", "run moe_rs --model olmoe-1b-7b --m 4 --weights x",
     "run: --weights is for other ops, not for moe_rs\n"},
    {"RunRoutingOfOthers", "run gemm_rs --model minilm-l6 --m 4 --routing hot",
     "run: --routing is for mixtures of experts alone\n"},
    {"FirstHalfAlone", "simulate ag_moe --machine h200x2 --m 8 --model mixtral-8x7b",
     "simulate: op: got \"ag_moe\", expected moe_rs or moe_ar\n"},
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

TEST(CliExperts, RunChecksAModelsLayer) {
  const std::string config = testing::TempDir() + "small-experts.json";
  std::ofstream(config) << R"({"model_type": "olmoe", "hidden_size": 64, "intermediate_size": 32,
    "num_experts": 8, "num_experts_per_tok": 2, "num_hidden_layers": 1, "hidden_act": "silu",
    "torch_dtype": "bfloat16"})";
  for (const char* op : {"moe_rs", "--op moe_ar"}) {
    const Finished f = run_command("run " + std::string(op) + " --model " + config +
                                   " --tp 2 --m 1,33 --routing uniform,hot --iterations 1");
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_NE(f.out.find("4 of 4 rows verified"), std::string::npos) << f.out;
  }
  unlink(config.c_str());
}

TEST(CliExperts, PlansNameTilesCollectivesAndScratch) {
  const Finished few = run_command(
      "plan ag_moe,moe_rs --tp 2 --m 8 --model mixtral-8x7b --backend cuda --wide --tuning off");
  EXPECT_EQ(few.code, 0) << few.err;
  for (const char* part : {"tiles    few: up to 64 rows x 64 columns",  // gate and up
                           "tiles    few: up to 64 rows x 128 columns", "all_gather: lines",
                           "reduce_scatter: lines", "2.0 rows per expert"})
    EXPECT_NE(few.out.find(part), std::string::npos) << part << few.out;
  const Finished many = run_command(
      "plan moe_rs,moe_ar --tp 2 --m 8192 --model mixtral-8x7b --backend cuda --wide --tuning off");
  EXPECT_EQ(many.code, 0) << many.err;
  // 8192 tokens and 16384 rows of 8 KiB, ids of 8 bytes.
  for (const char* part :
       {"tiles    many: up to 192 rows x 256 columns of 2 CTAs", "reduce_scatter: chunks",
        "all_reduce: chunks, 3168 workers", "each rank sends 32.0 MiB", "each rank sends 64.0 MiB",
        "192.1 MiB per rank, of both halves: rows 128.0 MiB, tokens 64.0 MiB"})
    EXPECT_NE(many.out.find(part), std::string::npos) << part << many.out;
}

TEST(CliExperts, PlansSayWhichTableTilesAreOf) {
  const Machine machine = cuda_machine();
  plan::TuningDraft draft("", plan::device_of(machine, "a GPU"));
  MoeLayer l;
  l.dtype = DType::bf16;
  l.hidden = 4096, l.inner = 7168, l.experts = 8, l.top_k = 2;
  draft.put(plan::expert_product(l, 64, true), plan::kSm90Brief, {77, 80, 4, "c"});
  const std::string file = testing::TempDir() + "tiles.json";
  std::ofstream(file) << draft.text();
  const auto planned = [&](const std::string& rest) {
    return run_command("plan ag_moe --tp 2 --model mixtral-8x7b --backend cuda --wide " + rest).out;
  };
  const std::string table = " --tuning " + file;
  const std::string own = planned("--m 64" + table), near = planned("--m 70" + table);
  const std::string far = planned("--m 256" + table), none = planned("--m 64 --tuning off");
  unlink(file.c_str());
  EXPECT_NE(own.find("tiles    brief: "), std::string::npos) << own;
  EXPECT_NE(own.find("why      tuned: the fastest measured, 77.0 us"), std::string::npos) << own;
  EXPECT_NE(near.find("why      tuned: tiles of the nearest row (distance 0.13)"),
            std::string::npos)
      << near;
  EXPECT_NE(far.find("tiles.json has no row near it"), std::string::npos) << far;
  EXPECT_NE(none.find("why      rule: few rows per expert"), std::string::npos) << none;
  EXPECT_NE(none.find("tiles    few: "), std::string::npos) << none;
}

}  // namespace
}  // namespace tilelace::cli
