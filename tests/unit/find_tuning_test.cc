// SPDX-License-Identifier: Apache-2.0
// Tables that are found where none is given: by what GPUs are, not by what they are called.
#include "plan/tuning/find_tuning.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "down_projection.h"
#include "folder.h"
#include "places.h"
#include "plan/sm90_grouped.h"
#include "plan/tuning/tuned_plan.h"
#include "plan/tuning/tuning_draft.h"

namespace tilelace::plan {
namespace {

constexpr const char* kPlan =
    "gemm_rs fused mesh store tile 128x256 chunk 128 workers 66 partials bf16; c256 split 0 group "
    "8 "
    "early grid 132";

std::string tuned_at(double gbps, int ranks, std::int64_t m, double us) {
  return fmt::format(
      R"({{"schema": "tilelace.tuning/1", "kernels": {}, "device": {{"name": "a GPU", )"
      R"("architecture": "sm_90a", "multiprocessors": 132{}}}, "rows": [{{"op": "gemm_rs", )"
      R"("ranks": {}, "dtype": "bf16", "m": {}, "n": [8192], "k": 14336, "us": {}, "plan": "{}"}}]}})",
      nlohmann::json(kernel_set(0)).dump(),
      gbps > 0 ? fmt::format(R"(, "memory_gbps": {})", gbps) : "", ranks, m, us, kPlan);
}

Machine with_memory(double gbps) {
  Machine machine = cuda_machine();
  machine.memory_bytes_per_s = gbps * 1e9;
  return machine;
}

class FindTuning : public testing::Test {
 protected:
  void write(const char* name, const std::string& text) const {
    std::filesystem::create_directories(folder_ / "tuning");
    std::ofstream(folder_ / "tuning" / name) << text;
  }
  [[nodiscard]] std::shared_ptr<const TuningTable> found(const Machine& machine, int ranks) const {
    return shipped_tuning({folder_ / "nothing", folder_ / "tuning"}, machine, ranks);
  }
  test::Folder folder_;
};

TEST_F(FindTuning, MemoryTellsGpusOfOneArchitectureApart) {
  write("h100x2.json", tuned_at(3350, 2, 1024, 500));
  write("h200x2.json", tuned_at(4800, 2, 1024, 400));
  EXPECT_EQ(found(with_memory(3352), 2)->rows[0].us, 500);
  EXPECT_EQ(found(with_memory(4917), 2)->rows[0].us, 400);
  EXPECT_EQ(found(with_memory(8000), 2), nullptr);
}

TEST_F(FindTuning, TilesOfExpertsAreForAnyNumberOfRanks) {
  TuningDraft draft("", device_of(with_memory(4917), "a GPU"));
  draft.put({64, 128, 64, 8, true, DType::bf16}, kSm90Few, {5, 0, 4, "c"});
  write("h200x2.json", draft.text());
  for (const int ranks : {1, 4}) {
    ASSERT_NE(found(with_memory(4917), ranks), nullptr);
    EXPECT_EQ(found(with_memory(4917), ranks)->grouped.size(), 1U);
  }
}

TEST_F(FindTuning, ATableThatDoesNotSayTheMemoryFitsAll) {
  write("old.json", tuned_at(0, 2, 1024, 500));
  EXPECT_NE(found(with_memory(3352), 2), nullptr);
  EXPECT_NE(found(with_memory(8000), 2), nullptr);
  write("old.json", tuned_at(3350, 2, 1024, 500));
  EXPECT_NE(found(with_memory(0), 2), nullptr);
}

TEST_F(FindTuning, OtherRanksArchitecturesAndSharesHaveNone) {
  write("h200x2.json", tuned_at(4800, 2, 1024, 400));
  EXPECT_EQ(found(with_memory(4800), 4), nullptr);
  Machine machine = with_memory(4800);
  machine.multiprocessors = 114;
  EXPECT_EQ(found(machine, 2), nullptr);
  machine = with_memory(4800);
  machine.shared_device = true;
  EXPECT_EQ(found(machine, 2), nullptr);
  EXPECT_EQ(found(cpu_machine(2, 0), 2), nullptr);
}

TEST_F(FindTuning, SeveralTablesStandBehindEachOtherByName) {
  write("b.json", tuned_at(4800, 2, 4096, 1400));
  write("a.json", tuned_at(4800, 2, 1024, 400));
  write("c.json", tuned_at(4800, 2, 1024, 300));
  Machine machine = with_memory(4800);
  machine.tuning = found(machine, 2);
  EXPECT_NE(make_plan(down(1024), machine).reason.find("the shipped a.json"), std::string::npos);
  EXPECT_NE(make_plan(down(4096), machine).reason.find("the shipped b.json"), std::string::npos);
  EXPECT_TRUE(has_own_row(machine.tuning.get(), down(4096), machine));
  EXPECT_FALSE(has_own_row(machine.tuning.get(), down(4000), machine));
  EXPECT_NE(machine.tuning->digest_of_all(), machine.tuning->digest);
}

TEST_F(FindTuning, ABrokenFileIsTold) {
  write("h200x2.json", "{");
  Machine machine = with_memory(4800);
  machine.tuning = found(machine, 2);
  ASSERT_NE(machine.tuning, nullptr);
  EXPECT_NE(make_plan(down(1024), machine).reason.find("not a table of"), std::string::npos);
}

TEST_F(FindTuning, TheEnvironmentGoesBeforeWhatWasShipped) {
  setenv("TILELACE_DATA", (folder_ / "").c_str(), 1);
  write("h200x2.json", tuned_at(4800, 2, 1024, 400));
  const std::string file = (folder_ / "mine.json").string();
  std::ofstream(file) << tuned_at(0, 2, 2048, 7);
  const Machine machine = with_memory(4801);
  EXPECT_EQ(tuning_for(machine, 2)->file, "the shipped h200x2.json");
  EXPECT_EQ(tuning_for(machine, 2), tuning_for(machine, 2)) << "read once";
  EXPECT_EQ(tuning_places().front(), folder_ / "" / "tuning");
  setenv("TILELACE_TUNING", file.c_str(), 1);
  EXPECT_EQ(tuning_for(machine, 2)->file, file);
  const auto given = std::make_shared<const TuningTable>();
  EXPECT_EQ(tuning_for(machine, 2, given), given);
  setenv("TILELACE_TUNING", "off", 1);
  EXPECT_EQ(tuning_for(machine, 2), nullptr);
  unsetenv("TILELACE_TUNING");
  unsetenv("TILELACE_DATA");
}

TEST(ShippedTuning, OfThisTreeIsFound) {
  const Machine machine = cuda_machine();
  const auto table = shipped_tuning({in_source_tree("tuning")}, machine, 2);
  ASSERT_NE(table, nullptr);
  EXPECT_TRUE(table->fits(machine));
  EXPECT_FALSE(table->fits(with_memory(3352))) << "an H100";
}

/// A table whose rows are left out serves nobody.
TEST(ShippedTuning, EveryRowIsTaken) {
  int tables = 0;
  for (const auto& entry : std::filesystem::directory_iterator(in_source_tree("tuning"))) {
    const auto table = read_tuning(entry.path().string());
    EXPECT_GT(table->rows.size(), 10U) << entry.path();
    EXPECT_TRUE(table->notes.empty()) << table->notes.front();
    ++tables;
  }
  EXPECT_GE(tables, 4);
}

TEST(CacheName, SaysWhoseItIs) {
  EXPECT_EQ(cache_name(with_memory(4917), 2), "sm_90a-132-4917-x2.json");
}

}  // namespace
}  // namespace tilelace::plan
