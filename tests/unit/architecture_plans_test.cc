// SPDX-License-Identifier: Apache-2.0
// What the planner knows of each architecture.
#include "plan/gemm/architecture_plans.h"

#include <gtest/gtest.h>

#include <set>

#include "core/architecture.h"
#include "cuda_plans.h"

namespace tilelace::plan {
namespace {

int rows() { return static_cast<int>(kArchitectures.size()); }

TEST(ArchitecturePlans, HaveTilesOfDifferentNames) {
  for (int row = 0; row < rows(); ++row) {
    std::set<std::string_view> names;
    for (const GemmTile& t : plans_of(row).tiles) EXPECT_TRUE(names.insert(t.name).second);
    EXPECT_FALSE(names.empty()) << name_of_architecture(row);
  }
}

TEST(ArchitecturePlans, CandidatesAreOfTheMachinesTilesAtItsCost) {
  const GemmProblem p{1024, 4096, 4096, DType::bf16};
  for (int row = 0; row < rows(); ++row) {
    const auto tiles = plans_of(row).tiles;
    for (const GemmPlan& plan : gemm_candidates(p, {132, false, row})) {
      EXPECT_EQ(plan.architecture, row);
      EXPECT_NE(std::find(tiles.begin(), tiles.end(), plan.tile), tiles.end()) << plan;
      EXPECT_GT(plan.predicted_us, 0) << plan;
    }
  }
}

TEST(ArchitecturePlans, SharesAndPlacesLeftFreeAreOfTheSame) {
  const GemmMachine machine{66, true, 3};
  EXPECT_EQ(machine.leaving(4), (GemmMachine{58, true, 3}));
}

TEST(ArchitecturePlans, AMachineOfNoneIsAnError) {
  Machine machine = cuda_machine();
  for (const int row : {-1, rows()}) {
    machine.architecture = row;
    const std::string error = error_of(cuda_problem(Op::gemm_rs, 4, 512, 1024, 1024), {}, machine);
    EXPECT_NE(error.find("architecture: got number"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace tilelace::plan
