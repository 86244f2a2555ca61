// SPDX-License-Identifier: Apache-2.0
// Printed plans are read back: all that there are, and what records of earlier commits say.
#include <fmt/ostream.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cuda_plans.h"
#include "plan/cuda.h"
#include "plan/cuda_ways.h"
#include "plan/plan_words.h"
#include "tilelace/error.h"

namespace tilelace::plan {
namespace {

Problem words_problem(Op op, int ranks, std::int64_t m) {
  return cuda_problem(op, ranks, m, 4096, 2048);
}

/// Of kernels' plans.
template <class Plans, class PlanOf>
void expect_read_back(const Problem& p, const Plans& plans, PlanOf plan_of) {
  for (const auto& c : plans) {
    if constexpr (requires { c.direct; })
      if (c.direct) continue;
    EXPECT_EQ(describe(plan_of(plan_of_words(p, describe(c)))), describe(c));
  }
}

TEST(PlanWords, EveryPlanThatIsPrintedIsReadBack) {
  for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar})
    for (const int ranks : {2, 4})
      for (const std::int64_t m : {1, 1000}) {
        const Problem p = words_problem(op, ranks, m);
        for (CudaWay& way : cuda_ways(p, cuda_machine())) {
          const std::string text = fmt::format("{}", fmt::streamed(way.plan));
          way.plan.staging_bytes = 0;
          way.plan.staging_formula.clear();
          EXPECT_EQ(plan_of_words(p, text), way.plan) << text;
        }
      }
}

TEST(PlanWords, KernelsPlansAreReadBack) {
  for (const std::int64_t m : {16, 512, 3001}) {
    const Problem gather = words_problem(Op::ag_gemm, 4, m);
    const Problem scatter = words_problem(Op::gemm_rs, 4, m);
    const Problem reduce = words_problem(Op::gemm_ar, 4, m);
    expect_read_back(gather, ag_gemm_candidates(gather), ag_gemm_plan_of);
    expect_read_back(scatter, gemm_rs_candidates(scatter), gemm_rs_plan_of);
    expect_read_back(reduce, gemm_ar_candidates(reduce), gemm_ar_plan_of);
    expect_read_back(reduce, gemm_reduce_candidates(reduce), gemm_reduce_plan_of);
  }
}

/// Of rows of several calls ("a | b", lists) each; of a GEMM alone only the kernel.
TEST(PlanWords, RecordsOfEarlierCommitsAreRead) {
  int read = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TILELACE_BENCHMARKS)) {
    if (entry.path().extension() != ".jsonl" ||
        entry.path().string().find("/old/") != std::string::npos)
      continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      const auto row = nlohmann::json::parse(line);
      if (!row.contains("plan") || !row["plan"].is_string() || !row.contains("op")) continue;
      const std::string op = row["op"], text = row["plan"];
      Problem p = words_problem(op == "gemm_rs"   ? Op::gemm_rs
                                : op == "gemm_ar" ? Op::gemm_ar
                                                  : Op::ag_gemm,
                                row.value("ranks", 4), row.value("m", 1024));
      if (text.empty() || name_of(p.op) != op) continue;
      EXPECT_NO_THROW(plan_of_words(p, text)) << entry.path() << ": " << text;
      ++read;
    }
  }
  EXPECT_GT(read, 400);
}

TEST(PlanWords, WhatMeansNothingIsNamed) {
  const Problem p = words_problem(Op::gemm_ar, 2, 64);
  const auto error_of = [&](const char* text) -> std::string {
    try {
      plan_of_words(p, text);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(error_of("direct, nonsense; c128 workers 66").find("got \"nonsense\""),
            std::string::npos);
  EXPECT_NE(error_of("direct; w64 workers 66").find("got w64"), std::string::npos);
  EXPECT_NE(error_of("gemm_ar fused mesh").find("got \"the end\", expected a transport"),
            std::string::npos);
  EXPECT_NE(error_of("staged, blocks of 8 rows, copy engines carry 3 chunks of 2 columns; c128")
                .find("got \"copy\""),
            std::string::npos);
  EXPECT_NE(error_of("").find("expected"), std::string::npos);
}

}  // namespace
}  // namespace tilelace::plan
