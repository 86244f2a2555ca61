// SPDX-License-Identifier: Apache-2.0
// What a check costs, in entries of clocks and cells that it looks at, not in seconds: millions of
// steps must stay a matter of seconds. And which runs are judged by others of the same calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "check/record.h"
#include "check/sweep.h"
#include "night.h"

namespace tilelace::check {
namespace {

constexpr int kRanks = 4;

CallSpec shape_of(Op op, Index m) {
  CallSpec s;
  s.op = op;
  s.m = m;
  s.cols = 8;
  s.tile_m = 16;
  s.chunk_rows = 16;
  s.blocks = op == Op::gemm_ar ? 2 : 1;
  s.block_grain = 16;
  return s;
}

/// Of every way to run a shape as one schedule.
std::vector<double> costs(Op op, Index m, int workers) {
  std::vector<double> all;
  const CallSpec* before = nullptr;
  const auto configs = variants(shape_of(op, m), kRanks, workers);
  for (const CheckConfig& c : configs) {
    const CallSpec& call = c.calls.front();
    if (call.unfused || (before != nullptr && *before == call)) continue;
    before = &call;
    const CheckReport report = check(c);
    EXPECT_TRUE(report.findings.empty()) << c;
    all.push_back(static_cast<double>(report.work) / static_cast<double>(report.steps));
  }
  return all;
}

class CheckerCost : public testing::TestWithParam<Op> {};

TEST_P(CheckerCost, OfAStepDoesNotGrowWithTheTiles) {
  const auto few = costs(GetParam(), 1024, 8), many = costs(GetParam(), 8192, 8);

  ASSERT_EQ(few.size(), many.size());
  for (std::size_t i = 0; i < few.size(); ++i) {
    EXPECT_LT(many[i], 1.2 * few[i]) << "variant " << i;
  }
}

/// As many tiles a worker: a join may look at every actor, but at each once.
TEST_P(CheckerCost, OfAStepGrowsNoFasterThanTheActors) {
  const auto few = costs(GetParam(), 1024, 8), many = costs(GetParam(), 4096, 32);

  ASSERT_EQ(few.size(), many.size());
  for (std::size_t i = 0; i < few.size(); ++i) {
    EXPECT_LT(many[i], 1.2 * (33.0 / 9.0) * few[i]) << "variant " << i;
  }
}

/// Flags that say little new: a join reads that, and not the clock of whoever raised them. Whole
/// clocks at each join would be some 60 entries a step.
TEST(CheckerCostOfFlags, IsWhatTheySayThatIsNew) {
  CheckConfig c;
  c.calls.assign(3, shape_of(Op::gemm_ar, 4096));
  for (CallSpec& call : c.calls)
    call.transport = Transport::multimem, call.shots = 2, call.blocks = 1;
  c.ranks = kRanks;
  c.workers = 32;

  const CheckReport report = check(c);

  EXPECT_TRUE(report.findings.empty());
  EXPECT_LT(report.work, 12 * report.steps);
}

/// Rank by rank, copies first; workers beyond the plan's have no part in the call.
void run_call(Monitor& monitor, Index call, const std::shared_ptr<const CallPlan>& plan,
              int workers) {
  std::vector<std::vector<StepList>> lists;
  for (int rank = 0; rank < kRanks; ++rank) lists.push_back(record(*plan, rank));
  for (int i = 0; i <= plan->workers(); ++i) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const int actor = actor_of(rank, i, workers);
      monitor.begin_call(actor, call, plan);
      for (const Step& step : lists[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)])
        monitor.on(actor, step);
    }
  }
  for (int a = 0; a < kRanks * (workers + 1); ++a)
    if (a % (workers + 1) <= plan->workers()) monitor.end_call(a);
}

/// Among CPU ranks the checked mode watches calls for as long as there are any.
TEST(CheckerCostOfFlags, OfCallsBeforeIsForgotten) {
  Monitor::Setup setup;
  setup.ranks = kRanks;
  setup.workers = 4;
  Monitor monitor(setup);
  const auto few = std::make_shared<const CallPlan>(shape_of(Op::ag_gemm, 200), kRanks, 2);
  const auto all = std::make_shared<const CallPlan>(shape_of(Op::ag_gemm, 200), kRanks, 4);
  std::size_t most = 0;
  for (Index call = 0; call < 200; ++call) {
    run_call(monitor, call, call == 0 || call == 199 ? all : few, setup.workers);
    if (call < 20) most = std::max(most, monitor.kept());
    ASSERT_LE(monitor.kept(), most) << call;
  }
  for (const Finding& f : monitor.findings()) ADD_FAILURE() << f.text;
}

/// Runs of the same lists in other orders, and with fewer actors at a time.
std::vector<CheckConfig> orders_of(CheckConfig c) {
  std::vector<CheckConfig> all{c};
  const int resident = c.resident;
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    c.seed = seed;
    c.resident = seed == 1 ? 0 : resident;
    all.push_back(c);
  }
  return all;
}

bool ends(const CheckReport& report) {
  return report.findings.empty() || report.findings.front().kind != FindingKind::deadlock;
}

/// What Checker relies on: lists that are clean in one order are clean in all that end. Broken
/// ones, too, so that there are lists near the border.
TEST(CheckerOrders, AreAllCleanWhereOneIs) {
  int clean = 0, broken = 0;
  for (std::int64_t i = 0; i < 1000 * night_times(); ++i) {
    CheckConfig config = random_config(77 + night_seed(), i);
    const int bent = static_cast<int>(Mutant::no_wait) + static_cast<int>(i % 40);
    if (bent <= kMutants) config.mutant = static_cast<Mutant>(bent);
    int without = 0, races = 0;
    for (const CheckConfig& c : orders_of(config)) {
      const CheckReport report = check(c);
      without += report.findings.empty() ? 1 : 0;
      races += !report.findings.empty() && ends(report) ? 1 : 0;
    }
    EXPECT_TRUE(without == 0 || races == 0) << config;
    clean += without > 0 ? 1 : 0;
    broken += races > 0 ? 1 : 0;
  }
  EXPECT_GT(clean, 300);
  EXPECT_GT(broken, 150);
}

TEST(CheckerOrders, AreJudgedOnceAndPlayedForDeadlocks) {
  CheckConfig c;
  c.calls.assign(3, shape_of(Op::gemm_rs, 100));
  c.ranks = kRanks;
  c.workers = 3;
  Checker checker;
  const CheckReport first = checker.check(c);
  c.seed = 5;
  const CheckReport again = checker.check(c);
  EXPECT_GT(first.work, 0);
  EXPECT_EQ(again.work, 0);
  EXPECT_EQ(again.steps, first.steps);
  EXPECT_EQ(again.tiles, first.tiles);
  EXPECT_EQ(again.transfers, first.transfers);
  EXPECT_EQ(again.flags, first.flags);

  c.calls[1].cols = 2;
  EXPECT_GT(checker.check(c).work, 0) << "other calls";
}

/// A run with findings says nothing of the next one.
TEST(CheckerOrders, OfBrokenListsAreAllJudged) {
  for (int i = 1; i <= kMutants; ++i) {
    CheckConfig c;
    c.calls.assign(3, shape_of(Op::gemm_ar, 100));
    c.ranks = kRanks;
    c.workers = 3;
    c.mutant = static_cast<Mutant>(i);
    Checker checker;
    for (c.seed = 0; c.seed < 4; ++c.seed) {
      const CheckReport one = checker.check(c), other = check(c);
      ASSERT_EQ(one.findings.size(), other.findings.size()) << c;
      for (std::size_t f = 0; f < one.findings.size(); ++f)
        EXPECT_EQ(one.findings[f].text, other.findings[f].text) << c;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, CheckerCost, testing::Values(Op::ag_gemm, Op::gemm_rs, Op::gemm_ar));

}  // namespace
}  // namespace tilelace::check
