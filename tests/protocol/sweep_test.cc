// SPDX-License-Identifier: Apache-2.0
// Every shape class x ranks x workers x residency, three calls each: no deadlock, no race, every
// byte moved once, every tile computed once.
#include "check/sweep.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>

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
    for (const CheckConfig& config : all) {
      const CheckReport report = check(config);
      EXPECT_TRUE(report.findings.empty()) << config << "\n  " << report.findings.front().text;
    }
  }
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
