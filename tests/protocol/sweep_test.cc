// SPDX-License-Identifier: Apache-2.0
// Every shape class x ranks x workers x residency, three calls each: no deadlock, no race, every
// byte moved once, every tile computed once.
#include "check/sweep.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>

#include "night.h"

namespace tilelace::check {
namespace {

constexpr std::int64_t kPerSeed = 5000;

class ProtocolSweep : public testing::TestWithParam<int> {};

TEST_P(ProtocolSweep, HoldsInFiveThousandConfigurations) {
  const SweepSummary sum =
      sweep(kPerSeed, static_cast<std::uint64_t>(GetParam()) + 8 * night_seed());

  for (const SweepFailure& f : sum.failures) {
    ADD_FAILURE() << f.config << "\n  " << f.findings.front().text;
  }
  EXPECT_EQ(sum.configurations, kPerSeed);
  EXPECT_EQ(sum.failed, 0);
  EXPECT_GT(sum.mixed, kPerSeed / 3);
  fmt::print("{} configurations, {} of mixed calls, {} tiles, {} transfers, {} flags\n",
             sum.configurations, sum.mixed, sum.tiles, sum.transfers, sum.flags);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ProtocolSweep, testing::Range(1, 8));

TEST(ProtocolVariants, HoldForEveryWayToRunAShape) {
  for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar}) {
    CallSpec shape;
    shape.op = op;
    shape.m = 100;
    shape.cols = 3;
    shape.tile_m = 16;
    shape.chunk_rows = 10;
    const auto all = variants(shape, 8, 3);
    EXPECT_GE(all.size(), 12U);
    bool copied = false;
    for (const CheckConfig& config : all) {
      copied |= config.calls.front().copied;
      const CheckReport report = check(config);
      EXPECT_TRUE(report.findings.empty()) << config << "\n  " << report.findings.front().text;
    }
    EXPECT_EQ(copied, op == Op::gemm_rs);
  }
}

/// All walks of kernels are among what is drawn, on ragged shards, too.
TEST(ProtocolWalks, AreDrawn) {
  std::map<std::string, int> drawn;
  for (std::int64_t i = 0; i < 2000; ++i) {
    for (const CallSpec& s : random_config(1, i).calls) {
      const WalkSpec& w = s.walk;
      if (w == WalkSpec{}) continue;
      const std::string rows = s.rows.empty() ? "" : ", ragged";
      const bool joins = w.apart == 0 && !w.joins.empty();
      if (joins) ++drawn["joined" + rows];
      if (w.apart > 0) ++drawn["apart" + rows];
      if (w.whole) ++drawn[(w.across ? "whole across" : "whole") + rows];
      if (w.pairs) ++drawn["pairs" + rows];
      if (w.together) ++drawn["together" + rows];
    }
  }
  EXPECT_EQ(drawn.size(), 12U);
  for (const auto& [walk, times] : drawn) EXPECT_GT(times, 20) << walk;
}

/// More ranks than kernels have, whose orders only hosts walk.
TEST(ProtocolWalks, HoldOnMoreRanksThanKernelsHave) {
  for (const int ranks : {9, 12}) {
    for (const Op op : {Op::ag_gemm, Op::gemm_rs}) {
      CallSpec shape;
      shape.op = op;
      shape.m = 77;
      shape.cols = 2;
      shape.tile_m = 4;
      shape.chunk_rows = 3;
      for (const CheckConfig& config : variants(shape, ranks, 2)) {
        const CheckReport report = check(config);
        EXPECT_TRUE(report.findings.empty()) << config << "\n  " << report.findings.front().text;
      }
    }
  }
}

/// As of a large product: tiles of 128 rows, and 96 columns of them.
TEST(ProtocolWalks, HoldOnEightRanksOf132Workers) {
  CallSpec gather;
  gather.m = 8192;
  gather.cols = 96;
  gather.chunk_rows = 256;
  gather.walk.apart = 0;
  gather.walk.joins = {300, 500, 500, 700, 800, 800, 900};
  gather.walk.wide = 4;
  gather.walk.deep = 3;
  CallSpec whole = gather;
  whole.walk = {.whole = true};
  whole.transport = Transport::store;
  CallSpec together = whole;
  together.op = Op::gemm_rs;
  together.walk = {.together = true};
  CallSpec pairs = together;
  pairs.tile_m = 64;
  pairs.m = 1000;
  pairs.walk = {.pairs = true};
  CheckConfig config;
  config.calls = {gather, whole, together, pairs};
  config.ranks = 8;
  config.workers = 132;

  const CheckReport report = check(config);

  for (const Finding& f : report.findings) ADD_FAILURE() << f.text;
  EXPECT_EQ(report.tiles, 8 * 96 * (3 * 64 + 8 * 2));
}

class ProtocolAtScale : public testing::TestWithParam<std::tuple<Op, Transport>> {};

// Time is printed, not judged.
TEST_P(ProtocolAtScale, HoldsOnEightRanksOf132Workers) {
  CallSpec spec;
  spec.op = std::get<0>(GetParam());
  spec.transport = std::get<1>(GetParam());
  spec.m = 8192;
  spec.cols = 12288 / 128;
  spec.blocks = spec.op == Op::gemm_ar ? 3 : 1;
  spec.block_grain = spec.op == Op::gemm_ar ? 128 : 1;
  CheckConfig config;
  config.calls = {spec, spec, spec};
  config.ranks = 8;
  config.workers = 132;

  const auto start = std::chrono::steady_clock::now();
  const CheckReport report = check(config);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;

  for (const Finding& f : report.findings) ADD_FAILURE() << f.text;
  EXPECT_GE(report.tiles, 3 * 8 * 64 * spec.cols);
  fmt::print("{}: {} steps in {:.2f} s\n", to_string(spec), report.steps, took.count());
}

TEST(ProtocolOfSharedTiles, HoldsOnEightRanksOf132Workers) {
  CallSpec spec;
  spec.op = Op::gemm_ar;
  spec.m = 8192;
  spec.cols = 12288 / 128;
  spec.blocks = 2;
  spec.lag = 96;
  spec.transport = Transport::store;
  CheckConfig config;
  config.calls = {spec, spec, spec};
  config.ranks = 8;
  config.workers = 2 * 132;
  config.resident = 132;

  const CheckReport report = check(config);

  for (const Finding& f : report.findings) ADD_FAILURE() << f.text;
  EXPECT_EQ(report.tiles, 3 * 8 * 64 * spec.cols);
}

INSTANTIATE_TEST_SUITE_P(Ops, ProtocolAtScale,
                         testing::Combine(testing::Values(Op::ag_gemm, Op::gemm_rs, Op::gemm_ar),
                                          testing::Values(Transport::push, Transport::pull,
                                                          Transport::store)));

}  // namespace
}  // namespace tilelace::check
