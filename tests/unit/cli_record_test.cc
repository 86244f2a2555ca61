// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "record.h"
#include "tilelace/error.h"

namespace tilelace::cli {
namespace {

Workload small_work() {
  Workload work;
  work.ranks = 2;
  work.sizes = {16};
  work.config.layers = 1;
  work.jobs = {{plain_gemm(Op::gemm_rs, 32, 64, 2), 0}};
  return work;
}

std::vector<RankPart> two_parts() {
  std::vector<RankPart> parts(2);
  for (std::size_t w = 0; w < kWays; ++w) {
    for (int i = 0; i < 3; ++i) {
      const double begin = 10.0 + i;
      parts[0].samples[w].push_back({begin, begin + 1e-3});
      parts[1].samples[w].push_back({begin + 5e-4, begin + 2e-3});
    }
  }
  return parts;
}

TEST(CliRecord, HasExactlyTheKeysInOrder) {
  const Workload work = small_work();
  const Row row = join(work, machine_for(2, {}), two_parts());
  const auto j = nlohmann::ordered_json::parse(record_line(work, row));
  const std::vector<std::string> want = {"schema",        "op",         "model",     "layer",
                                         "ranks",         "m",          "n",         "k",
                                         "dtype",         "backend",    "mode",      "gemm_us",
                                         "collective_us", "unfused_us", "medium_us", "fused_us",
                                         "path",          "roof_us",    "ect_us",    "efficiency",
                                         "speedup",       "peers",      "plan",      "transport",
                                         "error",         "exact",      "verified",  "iterations",
                                         "spread",        "device",     "driver",    "commit",
                                         "time"};
  std::vector<std::string> keys;
  for (const auto& [key, value] : j.items()) keys.push_back(key);
  EXPECT_EQ(keys, want);
  EXPECT_EQ(j["schema"], "tilelace.bench/1");
  EXPECT_TRUE(j["model"].is_null());
  EXPECT_TRUE(j["layer"].is_null());
  EXPECT_TRUE(j["driver"].is_null());
  EXPECT_TRUE(j["efficiency"].is_null());  // unfused took no longer than the GEMM
  EXPECT_EQ(j["n"], 32);
  EXPECT_EQ(j["k"], 64);
  EXPECT_EQ(j["iterations"], 3);
}

TEST(CliRecord, ASampleLastsFromTheFirstBeginToTheLastEnd) {
  const Row row = join(small_work(), machine_for(2, {}), two_parts());
  EXPECT_NEAR(*row.time(Way::fused), 2000, 1e-3);
}

TEST(CliRecord, TheSlowestRanksHostTimeIsTheRows) {
  auto parts = two_parts();
  EXPECT_FALSE(join(small_work(), machine_for(2, {}), parts).host);  // CPU ranks have none
  parts[0].host = {7.5, 9.5};
  parts[1].host = {8.5, 9.0};
  parts[1] = part_of(to_text(parts[1]));  // as it travels
  const Row row = join(small_work(), machine_for(2, {}), parts);
  ASSERT_TRUE(row.host);
  EXPECT_EQ(row.host->us, 8.5);
  EXPECT_EQ(row.host->beside_graphs_us, 9.5);
}

TEST(CliRecord, WithoutChecksTheirFiguresAreNull) {
  Workload work = small_work();
  work.check = false;
  const auto j =
      nlohmann::json::parse(record_line(work, join(work, machine_for(2, {}), two_parts())));
  EXPECT_TRUE(j["error"].is_null() && j["exact"].is_null() && j["verified"].is_null());
}

TEST(CliRecord, NanIsNullAndNotVerified) {
  auto parts = two_parts();
  parts[1].error_squares = NAN;
  parts[1].value_squares = 1;
  parts[1].pass = false;
  parts[1].complaint = "rank 1: nan";
  parts[1] = part_of(to_text(parts[1]));  // as it travels
  const Row row = join(small_work(), machine_for(2, {}), parts);
  const auto j = nlohmann::json::parse(record_line(small_work(), row));
  EXPECT_TRUE(j["error"].is_null());
  EXPECT_EQ(j["verified"], false);
  EXPECT_EQ(row.complaint, "rank 1: nan");
}

TEST(CliRecord, AllReduceNeedsTheSameBitsOnEveryRank) {
  Workload work = small_work();
  work.jobs = {{plain_gemm(Op::gemm_ar, 32, 64, 2), 0}};
  auto parts = two_parts();
  parts[0].result_hash = parts[1].result_hash = 1;
  EXPECT_TRUE(join(work, machine_for(2, {}), parts).good());
  parts[1].result_hash = 2;
  EXPECT_FALSE(join(work, machine_for(2, {}), parts).good());
}

TEST(CliRecord, UnwritableFilesAreUsageErrors) {
  EXPECT_THROW(RecordFile("/nonexistent/folder/x.jsonl"), Error);
  RecordFile full("/dev/full");
  EXPECT_THROW(full.write("{}"), Error);
}

}  // namespace
}  // namespace tilelace::cli
