// SPDX-License-Identifier: Apache-2.0
// The simulator runs the schedules that the checker proves: same steps, and a bug in them shows.
#include <gtest/gtest.h>

#include "check/mutants.h"
#include "check/record.h"
#include "sample_machine.h"
#include "sim/run.h"

namespace tilelace::sim {
namespace {

using Lists = std::vector<std::vector<StepList>>;

Step same(const check::Step& s) {
  const bool flag = s.verb == check::Verb::signal || s.verb == check::Verb::wait;
  return {static_cast<Verb>(s.verb),
          s.peer,
          s.owner,
          static_cast<std::int32_t>(s.rows.begin),
          static_cast<std::int32_t>(s.rows.size()),
          static_cast<std::int32_t>(s.col),
          flag ? s.at : -1};
}

bool plays(const check::CallSpec& s) {
  return !s.exchange && !s.unfused && s.transport != Transport::multimem && s.lag == 0;
}

/// Those that the simulator plays: it has no sums behind the product, none by the switch, no
/// collectives, and no gemm_ar in the order of GPUs.
std::vector<check::CheckConfig> scenarios_of_tiles() {
  auto all = check::mutant_scenarios();
  for (check::CheckConfig& c : all)
    std::erase_if(c.calls, [](const check::CallSpec& s) { return !plays(s); });
  std::erase_if(all, [](const check::CheckConfig& c) { return c.calls.empty(); });
  return all;
}

/// The checker's lists of a rank, rewritten by a mutant, as the simulator's.
std::vector<StepList> of_checker(const check::CallPlan& plan, int rank, check::Mutant mutant,
                                 bool& changed) {
  auto lists = check::record(plan, rank);
  changed |= check::mutate(mutant, plan, rank, lists);
  std::vector<StepList> out;
  for (const auto& list : lists) {
    StepList steps;
    for (const check::Step& s : list) steps.push_back(same(s));
    out.push_back(std::move(steps));
  }
  return out;
}

Outcome play_small(const check::CheckConfig& c, const check::CallSpec& spec, const Lists& lists) {
  Costs costs;
  costs.tile_us = [](int rows) { return 5.0 + rows; };
  costs.row_bytes = 40000;
  costs.tile_row_bytes = 20000;
  costs.reduce_gbps = 30;
  costs.header_us = 40;  // so late that it matters who waits for them
  costs.resident = c.workers;
  costs.route = {spec.route, c.ranks, spec.local};
  return play(sample_machine(), c.ranks, costs, lists);
}

TEST(SimSchedule, StepsAreThoseOfTheChecker) {
  for (const check::CheckConfig& config : scenarios_of_tiles()) {
    for (const check::CallSpec& spec : config.calls) {
      const check::CallPlan plan(spec, config.ranks, config.workers);
      for (int r = 0; r < config.ranks; ++r) {
        bool changed = false;
        const auto expected = of_checker(plan, r, check::Mutant::none, changed);
        const auto own = plan.visit(r, [](const auto& s) { return record(s); });
        EXPECT_EQ(own, expected) << spec << " rank " << r;
      }
    }
  }
}

TEST(SimSchedule, EveryScenarioEnds) {
  for (const check::CheckConfig& config : scenarios_of_tiles()) {
    for (const check::CallSpec& spec : config.calls) {
      const check::CallPlan plan(spec, config.ranks, config.workers);
      Lists lists;
      for (int r = 0; r < config.ranks; ++r) {
        lists.push_back(plan.visit(r, [](const auto& s) { return record(s); }));
      }
      const Outcome o = play_small(config, spec, lists);
      EXPECT_EQ(o.stuck, "") << spec;
      EXPECT_GT(o.end_us, 0) << spec;
    }
  }
}

/// Mutants of how flags are read or of the run are not in a schedule.
TEST(SimSchedule, EveryMutantOfAScheduleChangesTheOutcome) {
  const auto scenarios = scenarios_of_tiles();
  for (int i = static_cast<int>(check::Mutant::no_wait); i <= check::kMutants; ++i) {
    const auto mutant = static_cast<check::Mutant>(i);
    if (mutant == check::Mutant::wrong_share) continue;  // of sums by the switch
    if (check::of_collectives(mutant)) continue;         // not played here
    int applied = 0, seen = 0;
    for (const check::CheckConfig& config : scenarios) {
      const check::CallSpec& spec = config.calls[0];
      const check::CallPlan plan(spec, config.ranks, config.workers);
      Lists right, wrong;
      bool changed = false, ignored = false;
      for (int r = 0; r < config.ranks; ++r) {
        right.push_back(of_checker(plan, r, check::Mutant::none, ignored));
        wrong.push_back(of_checker(plan, r, mutant, changed));
      }
      if (!changed) continue;
      ++applied;
      seen += play_small(config, spec, right) == play_small(config, spec, wrong) ? 0 : 1;
    }
    EXPECT_GT(applied, 0) << check::name_of(mutant);
    // In some calls it does not matter: sums may be early where all has long arrived.
    EXPECT_GT(seen, 0) << check::name_of(mutant) << ": " << seen << " of " << applied;
  }
}

}  // namespace
}  // namespace tilelace::sim
