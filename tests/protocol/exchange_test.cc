// SPDX-License-Identifier: Apache-2.0
// Collectives under the checker: random calls, mutants, what it says.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "check/mutants.h"
#include "check/record.h"
#include "check/sweep.h"
#include "night.h"

namespace tilelace::check {
namespace {

TEST(ProtocolExchange, HoldsInRandomCalls) {
  const std::int64_t count = 1500 * night_times();
  std::map<std::string, int> drawn;
  std::int64_t steps = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const CheckConfig config = random_exchange(1 + night_seed(), i);
    for (const CallSpec& call : config.calls) {
      const ExchangeSpec& s = *call.exchange;
      ++drawn[fmt::format("{}{}{}{}{}", row_of(s.collective).name, s.shots == 2 ? " two shots" : "",
                          s.direct ? " direct" : "", s.lines ? " lines" : "",
                          s.in_place ? " in place" : "")];
    }

    const CheckReport report = check(config);

    steps += report.steps;
    ASSERT_TRUE(report.findings.empty()) << config << "\n  " << report.findings.front().text;
  }
  EXPECT_EQ(drawn.size(), 25U);
  for (const auto& [kind, times] : drawn) EXPECT_GT(times, 40) << kind;
  fmt::print("{} configurations, {} steps\n", count, steps);
}

TEST(ProtocolExchange, ScenariosAreClean) {
  for (const CheckConfig& config : exchange_scenarios()) {
    const CheckReport report = check(config);
    EXPECT_TRUE(report.findings.empty()) << config << "\n  " << report.findings.front().text;
  }
}

struct Tried {
  int bent = 0, caught = 0;
};

Tried try_on(Mutant mutant, const std::vector<CheckConfig>& scenarios) {
  Tried tried;
  for (CheckConfig c : scenarios) {
    c.mutant = mutant;
    const CheckReport report = check(c);
    tried.bent += report.mutated ? 1 : 0;
    tried.caught += report.findings.empty() ? 0 : 1;
  }
  return tried;
}

TEST(ExchangeMutants, AreAllCaught) {
  const auto scenarios = exchange_scenarios();
  int applied = 0;
  for (int i = 1; i <= kMutants; ++i) {
    const auto mutant = static_cast<Mutant>(i);
    const Tried tried = try_on(mutant, scenarios);
    EXPECT_EQ(tried.bent > 0, tried.caught > 0) << name_of(mutant);
    applied += tried.bent > 0 ? 1 : 0;
  }
  EXPECT_GE(applied, 25);
}

/// Lists that are bent are found in every run of collectives, of whatever kind.
TEST(ExchangeMutants, OfListsAreCaughtWhereverTheyBend) {
  const auto scenarios = exchange_scenarios();
  for (int i = static_cast<int>(Mutant::no_wait); i <= kMutants; ++i) {
    const auto mutant = static_cast<Mutant>(i);
    if (mutant == Mutant::line_at_least) continue;  // the next test
    const Tried tried = try_on(mutant, scenarios);
    EXPECT_EQ(tried.bent, tried.caught) << name_of(mutant);
  }
}

/// `>=` takes a unit for there that was written half of all epochs before. Until then it would do:
/// nobody is two calls ahead.
TEST(ExchangeMutants, OfTheEpochsOfLinesNeedUnitsThatWereIdle) {
  int found = 0;
  for (CheckConfig c : exchange_scenarios()) {
    c.mutant = Mutant::line_at_least;
    const bool any = !check(c).findings.empty();
    if (c.idle == 0) {
      EXPECT_FALSE(any) << c;
    }
    found += any ? 1 : 0;
  }
  EXPECT_GE(found, 3);
}

/// Two ranks, a worker each, driven by hand.
struct ByHand {
  explicit ByHand(const ExchangeSpec& spec) : monitor(setup()) {
    CallSpec call;
    call.exchange = spec;
    const auto plan = std::make_shared<const CallPlan>(call, 2, 1);
    for (int a = 0; a < 4; ++a) monitor.begin_call(a, 0, plan);
  }
  static Monitor::Setup setup() {
    Monitor::Setup s;
    s.ranks = 2;
    return s;
  }
  std::string after(const std::vector<std::pair<int, Step>>& steps) {
    for (const auto& [actor, step] : steps) monitor.on(actor, step);
    return monitor.findings().empty() ? "" : monitor.findings().front().text;
  }
  Monitor monitor;
};

constexpr int kWorker0 = 1, kWorker1 = 3;
Step push(int round) { return {Verb::push, 1, 0, round, round % 4, {round, round + 1}, -1}; }
const Step kTold{Verb::signal, 1, -1, 0, 0, {}, -1};
const Step kAwaited{Verb::wait, -1, -1, 0, 0, {}, -1};
const Step kAdmitted{Verb::admit, -1, -1, 0, -1, {}, -1};
const Step kTaken{Verb::deliver, 0, 0, 0, 0, {0, 1}, -1};

ExchangeSpec gather(std::int64_t units) {
  ExchangeSpec s;
  s.collective = Collective::all_gather;
  s.units = {units, units};
  return s;
}

TEST(ExchangeFindings, OfAPlaceThatIsSentTwiceInARound) {
  EXPECT_EQ(ByHand(gather(9)).after({{kWorker0, push(0)}, {kWorker0, push(0)}}),
            "moved twice: all_gather call 1 rank 0 compute 0 step 2 push chunk 0 rows 0..1 of "
            "shard 0, peer 1 writes incoming@1 rows 0..1, already written in round 0 by rank 0 "
            "compute 0 step 1");
}

TEST(ExchangeFindings, OfAPlaceThatIsUsedAgainTooEarly) {
  EXPECT_EQ(ByHand(gather(9)).after({{kWorker0, push(0)}, {kWorker0, push(4)}}),
            "race: all_gather call 1 rank 0 compute 0 step 2 push chunk 0 rows 4..5 of shard 0, "
            "peer 1 writes incoming@1 rows 0..1, where nobody has read round 0");
  EXPECT_EQ(ByHand(gather(9)).after({{kWorker0, push(0)},
                                     {kWorker0, kTold},
                                     {kWorker1, kAdmitted},
                                     {kWorker1, kAwaited},
                                     {kWorker1, kTaken},
                                     {kWorker0, push(4)}}),
            "race: all_gather call 1 rank 0 compute 0 step 3 push chunk 0 rows 4..5 of shard 0, "
            "peer 1 writes incoming@1 rows 0..1, while rank 1 compute 0 may still read round 0");
}

TEST(ExchangeFindings, OfInputThatIsWrittenOver) {
  ExchangeSpec s = gather(1);
  s.collective = Collective::all_reduce;
  s.units = {1};
  s.in_place = true;
  const Step store{Verb::store, -1, 0, 0, -1, {0, 1}, -1};
  ByHand h(s);
  const std::string first =
      h.after({{kWorker0, kAdmitted}, {kWorker0, store}, {kWorker0, push(0)}});
  EXPECT_EQ(first,
            "out of order: all_reduce call 1 rank 0 compute 0 step 2 store chunk -1 rows 0..1 of "
            "shard 0 has 0 terms of 2");
  EXPECT_EQ(h.monitor.findings().back().text,
            "race: all_reduce call 1 rank 0 compute 0 step 3 push chunk 0 rows 0..1 of shard 0, "
            "peer 1 reads out@0 rows 0..1, the input that rank 0 compute 0 step 2 has written "
            "over");
}

TEST(ExchangeFindings, LimitsOfCollectivesAreNamed) {
  ExchangeSpec s = gather(schedule::kMaxExchangeRounds + 1);
  EXPECT_EQ(legal(s, 2), "a rank may send another at most workers x chunk x rounds units");
  EXPECT_EQ(legal(gather(schedule::kMaxExchangeRounds), 2), std::nullopt);
  EXPECT_EQ(
      legal(gather(1), 3),
      "units must have one entry for all_reduce, ranks x ranks for all_to_all, else one per rank");
  s = gather(1);
  s.shots = 2;
  EXPECT_EQ(legal(s, 2), "shots must be 1 or, for all_reduce, 2");
  s = gather(1);
  s.direct = s.lines = true;
  EXPECT_EQ(
      legal(s, 2),
      "direct needs chunks, and is neither for one-shot all_reduce nor for uneven all_to_all");
  CheckConfig c;
  c.ranks = 2;
  c.calls.resize(2);
  c.calls[1].exchange = gather(1);
  EXPECT_EQ(legal(c), std::nullopt);  // among other ops
  c.calls[1].exchange->workers = c.workers + 1;
  EXPECT_EQ(legal(c), "a collective must not have more workers than a rank has");
}

}  // namespace
}  // namespace tilelace::check
