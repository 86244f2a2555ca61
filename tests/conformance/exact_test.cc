// SPDX-License-Identifier: Apache-2.0
// Random and edge shapes with integer data: every rank's result is right bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/points.h"
#include "night.h"
#include "runner.h"

namespace tilelace::conformance {
namespace {

constexpr int kBatch = 12;

int shapes() { return TILELACE_CONFORMANCE_SHAPES * night_times(); }

/// Shares of shapes() by group size; they add up to 100.
constexpr int share_of(int ranks) {
  switch (ranks) {
    case 1: return 10;
    case 2: return 20;
    case 3: return 16;
    case 4: return 22;
    case 5: return 12;
    case 8: return 14;
    default: return 6;
  }
}

class Exact : public ::testing::TestWithParam<std::tuple<Op, int>> {
 protected:
  void SetUp() override { points::poison_slots = true; }
  void TearDown() override { points::poison_slots = false; }
};

/// The cases of one number of workers, in batches that are prepared together.
void run_all(const std::vector<Case>& cases, int ranks, const RunOptions& options) {
  for (int workers = 1; workers <= 3; ++workers) {
    Runner runner(ranks, workers);
    std::vector<Case> batch;
    const auto flush = [&] {
      for (const auto& failure : runner.run(batch, options)) ADD_FAILURE() << failure;
      batch.clear();
    };
    for (const auto& c : cases) {
      if (c.workers == workers) batch.push_back(c);
      if (static_cast<int>(batch.size()) == kBatch) flush();
      if (::testing::Test::HasFailure()) return;
    }
    if (!batch.empty()) flush();
  }
}

TEST_P(Exact, EveryRankIsRightBitForBit) {
  const auto [op, ranks] = GetParam();
  const int count = std::max(4, shapes() * share_of(ranks) / 100);
  const auto table =
      make_cases({.op = op, .ranks = ranks, .count = count, .seed = 11 + night_seed()});
  // Were it a third of all, refused ones would be count / 2, give or take 0.87 sqrt(count).
  EXPECT_LT(table.refused, count / 2 + 3.5 * std::sqrt(count))
      << "more than a third of the combinations is refused: the generator is off";
  run_all(table.cases, ranks, {});
  RecordProperty("shapes", count);
}

/// Dense random data moves unchanged: shows lost, doubled or swapped pieces that zeros would hide.
class Gathered : public ::testing::TestWithParam<int> {};

TEST_P(Gathered, OperandIsTheSameBits) {
  const int ranks = GetParam();
  auto table = make_cases({.op = Op::ag_gemm,
                           .ranks = ranks,
                           .count = std::max(4, shapes() / 40),
                           .seed = 12 + night_seed()});
  for (auto& c : table.cases) c.problem.return_gathered = true;
  RunOptions options;
  options.fill = Fill::normal;
  run_all(table.cases, ranks, options);
}

INSTANTIATE_TEST_SUITE_P(Conformance, Gathered, ::testing::Values(1, 2, 3, 4, 5, 8, 16));

INSTANTIATE_TEST_SUITE_P(Conformance, Exact,
                         ::testing::Combine(::testing::Values(Op::ag_gemm, Op::gemm_rs,
                                                              Op::gemm_ar),
                                            ::testing::Values(1, 2, 3, 4, 5, 8, 16)),
                         [](const auto& suite) {
                           return std::string(name_of(std::get<0>(suite.param))) + "_" +
                                  std::to_string(std::get<1>(suite.param)) + "_ranks";
                         });

}  // namespace
}  // namespace tilelace::conformance
