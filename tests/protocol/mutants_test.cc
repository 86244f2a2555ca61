// SPDX-License-Identifier: Apache-2.0
#include "check/mutants.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tilelace::check {
namespace {

TEST(Mutants, ScenariosAreCleanWithoutThem) {
  for (const CheckConfig& config : mutant_scenarios()) {
    const CheckReport report = check(config);
    EXPECT_TRUE(report.findings.empty()) << config << "\n  " << report.findings.front().text;
  }
}

TEST(Mutants, AreAllCaught) {
  const auto results = run_mutants();

  EXPECT_EQ(results.size(), static_cast<std::size_t>(kMutants));
  EXPECT_GE(kMutants, 16);
  for (const MutantResult& r : results) {
    EXPECT_GT(r.applied, 0) << name_of(r.mutant) << " bends nothing";
    EXPECT_GT(r.caught, 0) << name_of(r.mutant) << " lives: " << describe(r.mutant);
  }
}

/// Every guard of the sums behind the product counts: what bends them is found in them alone. One
/// set of flags would do there, as all of them are raised behind the admission.
TEST(Mutants, OfSumsBehindTheProductAreAllCaught) {
  const auto other = [](const CallSpec& call) { return !call.unfused; };
  std::vector<CheckConfig> sums = mutant_scenarios();
  std::erase_if(sums, [&](const CheckConfig& c) {
    return std::any_of(c.calls.begin(), c.calls.end(), other);
  });
  ASSERT_GE(sums.size(), 4U);
  int applied = 0;
  for (int i = 1; i <= kMutants; ++i) {
    bool bent = false, caught = false;
    for (CheckConfig c : sums) {
      c.mutant = static_cast<Mutant>(i);
      const CheckReport report = check(c);
      bent |= report.mutated;
      caught |= !report.findings.empty();
    }
    if (static_cast<Mutant>(i) == Mutant::one_flag_set) continue;
    EXPECT_EQ(bent, caught) << name_of(static_cast<Mutant>(i));
    applied += bent ? 1 : 0;
  }
  EXPECT_GE(applied, 14);
}

/// The same of sums of whole tiles, by the switch or in one shot, as far as lists are bent. Nobody
/// leaves a call by the switch before all have counted all sums, so among calls of that kind alone
/// nobody is ahead: slots, headers and `>=` are needed, and tried, beside other calls.
TEST(Mutants, OfSumsByTheSwitchAreAllCaught) {
  const auto other = [](const CallSpec& call) { return call.transport != Transport::multimem; };
  std::vector<CheckConfig> sums = mutant_scenarios();
  std::erase_if(sums, [&](const CheckConfig& c) {
    return std::any_of(c.calls.begin(), c.calls.end(), other);
  });
  ASSERT_EQ(sums.size(), 9U);
  int applied = 0;
  for (int i = static_cast<int>(Mutant::no_wait); i <= kMutants; ++i) {
    const auto mutant = static_cast<Mutant>(i);
    bool bent = false, caught = false;
    for (CheckConfig c : sums) {
      c.mutant = mutant;
      const CheckReport report = check(c);
      bent |= report.mutated;
      caught |= !report.findings.empty();
    }
    EXPECT_EQ(bent, caught) << name_of(mutant);
    applied += bent ? 1 : 0;
  }
  EXPECT_GE(applied, 13);
}

/// Scenarios of nothing but fused gemm_ar, whose finished tiles go to all.
std::vector<CheckConfig> shared_scenarios() {
  const auto other = [](const CallSpec& call) { return call.lag == 0; };
  std::vector<CheckConfig> all = mutant_scenarios();
  std::erase_if(all, [&](const CheckConfig& c) {
    return std::any_of(c.calls.begin(), c.calls.end(), other);
  });
  return all;
}

/// As far as lists are bent: in every run, whoever multiplies and collects.
TEST(Mutants, OfSharedTilesAreAllCaught) {
  const std::vector<CheckConfig> runs = shared_scenarios();
  ASSERT_EQ(runs.size(), 6U);
  int applied = 0;
  for (int i = static_cast<int>(Mutant::no_wait); i <= kMutants; ++i) {
    bool bent = false;
    for (CheckConfig c : runs) {
      c.mutant = static_cast<Mutant>(i);
      const CheckReport report = check(c);
      bent |= report.mutated;
      EXPECT_EQ(report.mutated, !report.findings.empty()) << c;
    }
    applied += bent ? 1 : 0;
  }
  EXPECT_GE(applied, 15);
}

/// Among calls of this kind alone one slot would do: nothing goes to a peer before all ranks are
/// known to be in the call. Beside calls that send earlier it does not.
TEST(Mutants, OfSlotsAreCaughtBesideSharedTiles) {
  CheckConfig c = shared_scenarios().front();
  c.mutant = Mutant::one_slot;
  EXPECT_TRUE(check(c).findings.empty());

  c.calls[1] = CallSpec{};
  c.calls[1].m = 30;
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    c.seed = seed;
    c.mutant = Mutant::none;
    EXPECT_TRUE(check(c).findings.empty()) << c;
    c.mutant = Mutant::one_slot;
    const CheckReport report = check(c);
    ASSERT_FALSE(report.findings.empty()) << c;
    EXPECT_NE(report.findings.front().text.find("ag_gemm call 2 rank"), std::string::npos)
        << report.findings.front().text;
  }
}

/// Of what a kernel's order says nothing may be otherwise: bent, it is found in every run of
/// kernels' walks in which it makes other steps.
TEST(Mutants, OfOrdersAreCaughtWhereverTheyBend) {
  const auto other = [](const CallSpec& call) { return call.walk == WalkSpec{}; };
  std::vector<CheckConfig> runs = mutant_scenarios();
  std::erase_if(runs, [&](const CheckConfig& c) {
    return std::any_of(c.calls.begin(), c.calls.end(), other);
  });
  ASSERT_EQ(runs.size(), 10U);
  for (int i = static_cast<int>(Mutant::wrong_chunk); i <= kMutants; ++i) {
    const auto mutant = static_cast<Mutant>(i);
    int bent = 0;
    for (CheckConfig c : runs) {
      c.mutant = mutant;
      const CheckReport report = check(c);
      bent += report.mutated ? 1 : 0;
      EXPECT_EQ(report.mutated, !report.findings.empty()) << c;
    }
    EXPECT_GT(bent, 0) << name_of(mutant);
  }
}

TEST(Mutants, HaveNamesAndReasonsOfTheirOwn) {
  for (int a = 0; a <= kMutants; ++a) {
    for (int b = 0; b < a; ++b) {
      EXPECT_NE(name_of(static_cast<Mutant>(a)), name_of(static_cast<Mutant>(b)));
      EXPECT_NE(describe(static_cast<Mutant>(a)), describe(static_cast<Mutant>(b)));
    }
  }
}

}  // namespace
}  // namespace tilelace::check
