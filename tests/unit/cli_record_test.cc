// SPDX-License-Identifier: Apache-2.0
#include <fmt/ostream.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "folder.h"
#include "operands.h"
#include "record.h"
#include "tilelace/error.h"

namespace tilelace::cli {
namespace {

Workload small_work() {
  Workload work;
  work.ranks = 2;
  work.sizes = {16};
  work.config.layers = 1;
  work.jobs = {{plain_gemm(Op::gemm_rs, {32}, 64, 2), 0}};
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
  const std::vector<std::string> want = {"schema",        "op",         "model",      "layer",
                                         "ranks",         "m",          "n",          "k",
                                         "dtype",         "backend",    "mode",       "gemm_us",
                                         "collective_us", "unfused_us", "beside_us",  "medium_us",
                                         "fused_us",      "path",       "longer_us",  "ect_us",
                                         "efficiency",    "speedup",    "peers",      "plan",
                                         "transport",     "error",      "exact",      "verified",
                                         "iterations",    "spread",     "candidates", "device",
                                         "driver",        "commit",     "time"};
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

TEST(CliRecord, TheFastestCandidateIsThePlanOfTheRow) {
  Workload work = small_work();
  work.jobs = {{plain_gemm(Op::gemm_rs, {8192}, 28672, 2), 0}};
  work.sizes = {4096};
  work.device = Device::cuda;
  work.candidates = 3;
  const auto ways = candidates_of(work, work.jobs[0], 4096, cuda_machine());
  ASSERT_GT(ways.size(), 2U);
  auto parts = two_parts();
  for (auto& part : parts) part.candidates = {{2, 5.5}, {0, 6.5}};
  parts[0] = part_of(to_text(parts[0]));  // as it travels
  const Row row = join(work, cuda_machine(), parts);
  const auto j = nlohmann::json::parse(record_line(work, row));
  ASSERT_EQ(j["candidates"].size(), 2U);
  EXPECT_EQ(j["candidates"][0]["plan"], j["plan"]);
  EXPECT_EQ(j["candidates"][0]["kind"], ways[2].kind);
  EXPECT_EQ(j["candidates"][0]["us"], 5.5);
  EXPECT_EQ(j["candidates"][1]["us"], 6.5);
  EXPECT_NE(j["candidates"][1]["plan"], j["plan"]);
}

TEST(CliRecord, PeersStandForTheWaysThatTheyAre) {
  Workload work = small_work();
  auto parts = two_parts();  // 2000 us each
  parts[0].peers = {{"cublas", Way::gemm, {2500}},
                    {"nccl", Way::collective, {2100, 2300, 2200}},
                    {"nccl_window", Way::collective, {2150}},
                    {"unfused_nccl", Way::unfused, {4300}},
                    {"fused_default", {}, {2050}}};
  parts[0] = part_of(to_text(parts[0]));  // as it travels
  const auto j = nlohmann::json::parse(record_line(work, join(work, machine_for(2, {}), parts)));
  EXPECT_NEAR(j["gemm_us"].get<double>(), 2000, 1e-3);  // ours is faster
  EXPECT_EQ(j["collective_us"], 2150);
  EXPECT_EQ(j["unfused_us"], 4300);
  EXPECT_NEAR(j["fused_us"].get<double>(), 2000, 1e-3);
  EXPECT_EQ(j["peers"]["nccl"], 2200);
  EXPECT_EQ(j["peers"]["fused_default"], 2050);
  EXPECT_NEAR(j["peers"]["tilelace_unfused"].get<double>(), 2000, 1e-3);
}

TEST(CliRecord, AnMlpIsOneRow) {
  Workload work = small_work();
  work.jobs = {plain_mlp("mlp_ar", 128, 64, 2)};
  work.device = Device::cuda;
  auto parts = two_parts();
  parts[0].plans = "product | gemm_ar";
  const auto j = nlohmann::json::parse(record_line(work, join(work, cuda_machine(), parts)));
  EXPECT_EQ(j["op"], "mlp_ar");
  EXPECT_EQ(j["n"], 128);
  EXPECT_EQ(j["k"], 64);
  EXPECT_EQ(j["plan"], "product | gemm_ar");
  EXPECT_TRUE(j["path"].is_null() && j["exact"].is_null());
}

TEST(CliCandidates, StandForEveryKindAndNotTwice) {
  Workload work = small_work();
  work.candidates = 2;
  for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar}) {
    const Job job{plain_gemm(op, {8192}, 8192, 2), 0};
    std::map<std::string, int> kinds;
    std::set<std::string> plans;
    for (const auto& way : candidates_of(work, job, 512, cuda_machine())) {
      ++kinds[way.kind];
      EXPECT_TRUE(plans.insert(fmt::format("{}", fmt::streamed(way.plan))).second);
    }
    std::set<std::string> all;
    for (const auto& way : plan::cuda_ways(problem_of(job.gemm, 512, work.dtype), cuda_machine()))
      if (plan::may_be_tuned(way.plan.kernel->way)) all.insert(way.kind);
    EXPECT_EQ(kinds.size(), all.size());
    // The five first ones may all be of a kind.
    for (const auto& [kind, count] : kinds) EXPECT_LE(count, 7) << kind;
  }
}

TEST(CliCandidates, ArePreparedFor) {
  Workload work = small_work();
  work.candidates = 1;
  work.device = Device::cuda;
  work.sizes = {1, 64, 4096};
  for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar}) {
    const Job job{plain_gemm(op, {8192}, 8192, 2), 0};
    const auto list = preparations(work, job, {}, cuda_machine(), false, work.sizes);
    for (const std::int64_t m : work.sizes)
      for (const auto& way : candidates_of(work, job, m, cuda_machine()))
        EXPECT_TRUE(std::any_of(list.begin(), list.end(), [&](const Preparation& p) {
          const Plan plan = make_plan(p.problem, cuda_machine(), p.options);
          return plan.path == way.plan.path && plan.route == way.plan.route &&
                 plan.transport == way.plan.transport;
        })) << way.kind;
  }
}

TEST(CliCandidates, OfOneKindAloneComeBehindThePlannersChoice) {
  Workload work = small_work();
  work.kinds = {"pull by shard"};
  const Job job{plain_gemm(Op::ag_gemm, {8192}, 8192, 2), 0};
  const auto ways = candidates_of(work, job, 4096, cuda_machine());
  for (std::size_t i = 1; i < ways.size(); ++i) EXPECT_EQ(ways[i].kind, "pull by shard");
  work.kinds = {"by magic"};
  EXPECT_THROW(candidates_of(work, job, 4096, cuda_machine()), Error);
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
  work.jobs = {{plain_gemm(Op::gemm_ar, {32}, 64, 2), 0}};
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

TEST(CliRecord, AFileIsReplacedUnlessItGoesOn) {
  const test::Folder folder;
  const std::string path = folder / "x.jsonl";
  const auto lines = [&] {
    std::ifstream in(path);
    return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
  };
  RecordFile(path).write("{}");
  RecordFile(path, true).write("{}");
  EXPECT_EQ(lines(), 2);
  RecordFile(path).write("{}");
  EXPECT_EQ(lines(), 1);
}

}  // namespace
}  // namespace tilelace::cli
