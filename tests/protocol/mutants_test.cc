// SPDX-License-Identifier: Apache-2.0
#include "check/mutants.h"

#include <gtest/gtest.h>

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
