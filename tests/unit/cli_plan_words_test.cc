// SPDX-License-Identifier: Apache-2.0
// Printed plans are read back: all that there are, and what records of earlier commits say.
#include <fmt/ostream.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "cuda_plans.h"
#include "places.h"
#include "plan/gpu/gpu_ways.h"
#include "plan/words/plan_words.h"
#include "tilelace/error.h"

namespace tilelace::plan {
namespace {

Problem words_problem(Op op, int ranks, std::int64_t m) {
  return cuda_problem(op, ranks, m, 4096, 2048);
}

TEST(PlanWords, EveryPlanThatIsPrintedIsReadBack) {
  for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar})
    for (const int ranks : {2, 4})
      for (const std::int64_t m : {1, 1000}) {
        const Problem p = words_problem(op, ranks, m);
        for (const CudaWay& way : cuda_ways(p, cuda_machine())) {
          const std::string text = fmt::format("{}", fmt::streamed(way.plan));
          EXPECT_EQ(plan_of_words(p, text), way.plan) << text;
        }
      }
}

/// Of rows of several calls ("a | b", lists) each; of a GEMM alone only the kernel.
TEST(PlanWords, RecordsOfEarlierCommitsAreRead) {
  int read = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(in_source_tree("benchmarks"))) {
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

/// Where tiles stand in one row, every walk is the same, and is said alike.
TEST(PlanWords, EqualPlansHaveEqualWords) {
  const std::string strip =
      "ag_gemm fused mesh store tile 256x224 chunk 2 workers 66 straddle; c224 split 0 group 4096 "
      "along n early grid 128";
  const auto said = [&](std::int64_t m) {
    return fmt::format("{}", fmt::streamed(plan_of_words(words_problem(Op::ag_gemm, 2, m), strip)));
  };
  EXPECT_NE(said(256).find("c224 split 0 group 8 early"), std::string::npos) << said(256);
  EXPECT_NE(said(257).find("c224 split 0 group 4096 along n early"), std::string::npos);
  for (const std::int64_t m : {128, 200, 256})
    for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar}) {
      std::set<std::string> all;
      for (const CudaWay& way : cuda_ways(words_problem(op, 2, m), cuda_machine()))
        EXPECT_TRUE(all.insert(fmt::format("{}", fmt::streamed(way.plan))).second) << way.plan;
    }
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
  EXPECT_NE(error_of("gemm_ar fused mesh").find("got the end, expected a transport"),
            std::string::npos);
  EXPECT_NE(error_of("staged, blocks of 8 rows, copy engines carry 3 chunks of 2 columns; c128")
                .find("got \"copy\""),
            std::string::npos);
  EXPECT_NE(error_of("").find("expected"), std::string::npos);
  EXPECT_NE(error_of("gemm_ar unfused ring store; c128").find("got ring, expected mesh"),
            std::string::npos);
  EXPECT_NE(error_of("gemm_ar unfused mesh add; c128").find("got \"add\", expected a transport"),
            std::string::npos);
}

TEST(PlanWords, NumbersThatSchedulesCannotTakeAreErrors) {
  const Problem p = words_problem(Op::gemm_ar, 2, 65536);
  const auto error_of = [&](int chunk, int workers, int lag, const std::string& more = "") {
    const auto text =
        fmt::format("gemm_ar fused mesh store tile 256x128 chunk {} workers {}; p128 lag {} {}",
                    chunk, workers, lag, more);
    try {
      plan_of_words(p, text);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage) << text;
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_of(4096, 66, 2), "");
  EXPECT_EQ(error_of(4096, 66, 2, "group 1 in 1 rounds grid 132"), "");
  const auto says = [](const std::string& error, const char* part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  says(error_of(4096, 0, 2), "workers: got 0, expected 1 to 65536");
  says(error_of(0, 66, 2), "chunk: got 0, expected 1 to");
  says(error_of(4096, 66, 0), "lag: got 0, expected at least 1");
  says(error_of(1, 66, 2), "chunk: got 1, expected a multiple of the tile's 256 rows");
  says(error_of(256, 66, 2), "at most 8 chunks in a shard of 32768 rows");
  says(error_of(4096, 66, 2, "group 0"), "group: got 0");
  says(error_of(4096, 66, 2, "in 0 rounds"), "rounds: got 0");
  says(error_of(4096, 66, 2, "blocks 0x2"), "blocks: got 0");
  says(error_of(4096, 2147483647, 2), "workers: got 2147483647");
  says(error_of(4096, 66, 2, "group 2147483647"), "group: got 2147483647");
  says(error_of(4096, 66, 2, "split 2147483647"), "split: got 2147483647");
}

}  // namespace
}  // namespace tilelace::plan
